/** What the marketplaces show and refuse: the manifest, the icon, the pages. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')
const manifest = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
    readonly [name: string]: unknown
    readonly version: string
    readonly categories: readonly string[]
    readonly keywords: readonly string[]
    readonly icon: string
    readonly description: string
    readonly enabledApiProposals?: readonly string[]
}
/** Those of the two marketplaces that an extension of this kind may name. */
const CATEGORIES = new Set(['AI', 'Chat', 'Machine Learning', 'Programming Languages', 'Other'])
const read = (name: string): string => fs.readFileSync(path.join(ROOT, name), 'utf8')

void test('the manifest has what a listing is made of', () => {
    for (const name of ['name', 'displayName', 'publisher', 'license', 'icon', 'galleryBanner', 'pricing']) {
        assert.ok(manifest[name] !== undefined, name)
    }
    assert.ok(manifest.categories.every((category) => CATEGORIES.has(category)))
    assert.ok(manifest.keywords.length <= 30)
    assert.ok(manifest.description.length <= 200)
    assert.equal(manifest.enabledApiProposals, undefined, 'proposed interfaces are refused')
    assert.match(manifest.version, /^\d+\.\d+\.\d+$/, 'a version with more to it is refused')
})

void test('the icon is a PNG of at least 128 × 128', () => {
    const icon = fs.readFileSync(path.join(ROOT, manifest.icon))
    assert.deepEqual([...icon.subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47])
    assert.ok(icon.readUInt32BE(16) >= 128 && icon.readUInt32BE(16) === icon.readUInt32BE(20))
})

void test('the page tells about privacy and needs; its pictures, if any, come from where a marketplace takes them', () => {
    const page = read('README.md')
    for (const heading of ['## Start', '## Privacy', '## Requirements', '## When something is wrong']) {
        assert.ok(page.includes(`\n${heading}\n`), heading)
    }
    const pictures = [...page.matchAll(/!\[[^\]]*\]\(([^)]+)\)/g)].map((match) => match[1] ?? '')
    assert.ok(pictures.every((address) => address.startsWith('https://') && !address.endsWith('.svg')))
    assert.ok(read('CHANGELOG.md').includes(`\n## ${manifest.version}\n`))
})

void test('the package holds what runs and what is shown, and no source', () => {
    const vsce = path.join(ROOT, 'node_modules/@vscode/vsce/vsce')
    const listed = execFileSync(process.execPath, [vsce, 'ls', '--no-dependencies'], { cwd: ROOT, encoding: 'utf8' })
    const files = listed.trim().split('\n')
    for (const name of ['package.json', 'README.md', 'CHANGELOG.md', 'media/icon.png', 'media/walkthrough/server.md']) {
        assert.ok(files.includes(name), name)
    }
    assert.ok(files.every((name) => !/^(src|test|node_modules)\/|\.map$|\.ts$/.test(name)))
})
