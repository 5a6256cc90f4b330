import assert from 'node:assert/strict'
import { test } from 'node:test'

import { candidates, findServer, OWN_ORIGIN, type Places, isOutdated } from '../../src/server/find.ts'

const PLACES: Places = {
    setting: '',
    trusted: true,
    folders: ['/made/up/a', '/made/up/b'],
    interpreter: '/envs/chosen/bin/python',
    search: '/usr/bin:.:/usr/local/bin',
    ownEnvironment: '/storage/server',
    home: '/home/me',
    windows: false,
}

void test('the order: the workspace, the Python extension, PATH, our own; a relative folder of PATH is not looked at', () => {
    assert.deepEqual(
        candidates(PLACES).map((candidate) => candidate.program),
        [
            '/made/up/a/.venv/bin/fastcoder-lsp',
            '/made/up/a/venv/bin/fastcoder-lsp',
            '/made/up/b/.venv/bin/fastcoder-lsp',
            '/made/up/b/venv/bin/fastcoder-lsp',
            '/envs/chosen/bin/fastcoder-lsp',
            '/usr/bin/fastcoder-lsp',
            '/usr/local/bin/fastcoder-lsp',
            '/storage/server/bin/fastcoder-lsp',
        ],
    )
})

void test('a workspace that is not trusted names no program, nor does an environment that it may have chosen', () => {
    const programs = candidates({ ...PLACES, trusted: false }).map((candidate) => candidate.program)
    assert.ok(programs.every((program) => !program.startsWith('/made/up') && !program.startsWith('/envs')))
    assert.ok(programs.includes('/usr/bin/fastcoder-lsp'))
})

void test('a setting is taken at its word: where it names nothing, nothing else is started', () => {
    const places = { ...PLACES, setting: '~/bin/server' }
    assert.equal(findServer(places, (program) => program === '/usr/bin/fastcoder-lsp'), undefined)
    assert.equal(findServer(places, () => true)?.program, '/home/me/bin/server')
})

void test('Windows has its own names', () => {
    const places = { ...PLACES, windows: true, folders: ['C:\\work'], search: 'C:\\Python;bin', ownEnvironment: 'C:\\own' }
    assert.deepEqual(
        candidates({ ...places, interpreter: 'C:\\env\\Scripts\\python.exe' }).map((candidate) => candidate.program),
        [
            'C:\\work\\.venv\\Scripts\\fastcoder-lsp.exe',
            'C:\\work\\venv\\Scripts\\fastcoder-lsp.exe',
            'C:\\env\\Scripts\\fastcoder-lsp.exe',
            'C:\\Python\\fastcoder-lsp.exe',
            'C:\\own\\Scripts\\fastcoder-lsp.exe',
        ],
    )
})

void test('our own installation counts while its Python is there: what a newer Python broke is installed anew', () => {
    const own = '/storage/server/bin/fastcoder-lsp'
    assert.equal(findServer(PLACES, (program) => program === own), undefined)
    assert.equal(findServer(PLACES, (program) => program.startsWith('/storage/server/bin/'))?.program, own)
})

void test('a newer extension offers once to update what an older one installed, and nothing else', () => {
    assert.equal(isOutdated(OWN_ORIGIN, '0.1.0', undefined, '0.2.0'), true)
    assert.equal(isOutdated(OWN_ORIGIN, undefined, undefined, '0.2.0'), true)
    assert.equal(isOutdated(OWN_ORIGIN, '0.1.0', '0.2.0', '0.2.0'), false)
    assert.equal(isOutdated(OWN_ORIGIN, '0.2.0', undefined, '0.2.0'), false)
    assert.equal(isOutdated('PATH', undefined, undefined, '0.2.0'), false)
})
