# A formula for a tap of your own: it installs the wheels that a release was tested with, without torch.
class FastcoderLsp < Formula
  desc "Language server with ghost text from a code model on your own machine"
  homepage "https://github.com/OWNER/fastcoder-lsp"
  url "https://github.com/OWNER/fastcoder-lsp/releases/download/v0.1.0/fastcoder_lsp-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "python@3.12"

  def install
    system Formula["python@3.12"].opt_bin/"python3.12", "-m", "venv", libexec
    system libexec/"bin/python", "-m", "pip", "install",
           "-c", "constraints.txt", "."
    bin.install_symlink libexec/"bin/fastcoder-lsp"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/fastcoder-lsp --version")
  end
end
