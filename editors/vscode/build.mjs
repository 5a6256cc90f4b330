// Bundles the extension and its two pages into dist/. `--watch` keeps on bundling.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

import { context } from 'esbuild'

const shared = { bundle: true, minify: true, sourcemap: 'linked', sourcesContent: false, metafile: true, logLevel: 'warning' }
const bundles = [
    {
        ...shared,
        entryPoints: { extension: 'src/extension.ts' },
        platform: 'node',
        target: 'node20',
        format: 'cjs',
        outdir: 'dist',
        outExtension: { '.js': '.cjs' },
        external: ['vscode'],
    },
    {
        ...shared,
        entryPoints: { statistics: 'src/webview/statistics.ts', trace: 'src/webview/trace.ts' },
        platform: 'browser',
        target: 'es2022',
        format: 'iife',
        outdir: 'dist/webview',
    },
]
const packages = new Set()
for (const options of bundles) {
    const bundle = await context(options)
    if (process.argv.includes('--watch')) {
        await bundle.watch()
    } else {
        const { metafile } = await bundle.rebuild()
        packagesOf(metafile).forEach((name) => packages.add(name))
        await bundle.dispose()
    }
}
writeFileSync('dist/THIRD-PARTY-LICENSES.txt', [...packages].sort().map(licenceOf).join('\n\n'))

/** Folders of the packages that a bundle holds code of. */
function packagesOf(metafile) {
    const inputs = Object.keys(metafile.inputs).map((input) => /^node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(input))
    return inputs.filter((match) => match !== null).map((match) => match[0])
}

function licenceOf(folder) {
    const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'))
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry))
    if (file === undefined) {
        throw new Error(`${folder} has no licence`)
    }
    return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, 'utf8').trim()}`
}
