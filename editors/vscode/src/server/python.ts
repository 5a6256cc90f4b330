/** A Python to install the server with, and how pip is to be called. Pure. */

/** What may be called to get a Python, in the order in which it is tried: a program and its first arguments. */
export function pythons(setting: string, windows: boolean): string[][] {
    if (setting !== '') {
        return [[setting]]
    }
    const versions = ['3.14', '3.13', '3.12', '3.11']
    return windows
        ? [['py', '-3'], ['python']]
        : [['python3'], ...versions.map((version) => [`python${version}`]), ['python']]
}

/** Prints "yes" in a Python that will do. */
export const CHECK_PYTHON =
    'import sys, venv, ensurepip; print("yes" if sys.version_info[:2] >= (3, 11) else "too old")'

/**
 * pip's arguments. PyTorch's own index offers a CPU build a tenth of the size of the usual one; pip prefers it, for its
 * version is the same with a suffix. It is not asked where there is an NVIDIA GPU, or on systems with one build only.
 */
export function pipArguments(wanted: string, linux: boolean, nvidia: boolean): string[] {
    const smaller = linux && !nvidia ? ['--extra-index-url', 'https://download.pytorch.org/whl/cpu'] : []
    return ['-m', 'pip', 'install', '--disable-pip-version-check', '--upgrade', ...smaller, wanted]
}

/** How far a program is, from a line such as "  40 %  weights (400 MB of 1.0 GB)". */
export function percentOf(line: string): number | undefined {
    const percent = /^\s*(\d{1,3}) %/.exec(line)?.[1]
    return percent === undefined ? undefined : Math.min(100, Number(percent))
}
