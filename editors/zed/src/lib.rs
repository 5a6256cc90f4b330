use zed_extension_api::{self as zed, settings::LspSettings, Result};

struct FastCoder;

impl zed::Extension for FastCoder {
    fn new() -> Self {
        Self
    }

    fn language_server_command(
        &mut self,
        server: &zed::LanguageServerId,
        worktree: &zed::Worktree,
    ) -> Result<zed::Command> {
        let named = LspSettings::for_worktree(server.as_ref(), worktree)?.binary.and_then(|binary| binary.path);
        let command = named
            .or_else(|| worktree.which("fastcoder-lsp"))
            .ok_or("fastcoder-lsp is not on PATH, and lsp.fastcoder.binary.path is not set")?;
        Ok(zed::Command { command, args: vec!["serve".into()], env: worktree.shell_env() })
    }

    fn language_server_initialization_options(
        &mut self,
        server: &zed::LanguageServerId,
        worktree: &zed::Worktree,
    ) -> Result<Option<zed::serde_json::Value>> {
        Ok(LspSettings::for_worktree(server.as_ref(), worktree)?.initialization_options)
    }
}

zed::register_extension!(FastCoder);
