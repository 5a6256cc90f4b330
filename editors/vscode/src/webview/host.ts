/** What the pages share: the messages from the extension, and making elements without any HTML from outside. */

interface VsCode {
    postMessage(message: unknown): void
}
declare function acquireVsCodeApi(): VsCode

/** Take the extension's messages from now on, and tell it so; they come from nowhere else. */
export function listen(onMessage: (message: unknown) => void): void {
    window.addEventListener('message', (event: MessageEvent<unknown>) => {
        onMessage(event.data)
    })
    acquireVsCodeApi().postMessage('ready')
}

/** An element with a class, holding texts and elements. */
export function element(tag: string, style: string, ...content: (string | Node)[]): HTMLElement {
    const made = document.createElement(tag)
    made.className = style
    made.append(...content)
    return made
}

/** A plot under a heading. `svg` is made by `plots.ts`, where every text in it is escaped. */
export function figure(heading: string, svg: string, caption = ''): HTMLElement {
    const made = element('figure', '', element('h2', '', heading))
    const drawn = new DOMParser().parseFromString(
        svg.replace('<svg ', '<svg xmlns="http://www.w3.org/2000/svg" '),
        'image/svg+xml',
    )
    made.append(document.importNode(drawn.documentElement, true))
    if (caption !== '') {
        made.append(element('figcaption', '', caption))
    }
    return made
}

/** Show this on the page, instead of what was there. */
export function show(...content: Node[]): void {
    document.querySelector('main')?.replaceChildren(...content)
}
