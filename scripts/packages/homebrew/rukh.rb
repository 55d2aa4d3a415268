# The recipe for Homebrew. scripts/packages/recipes.sh fills in the release.
class Rukh < Formula
  desc "UCI chess engine for Leela Chess Zero networks"
  homepage "@REPOSITORY@"
  url "@URL@"
  sha256 "@CHECKSUM@"
  license "GPL-3.0-or-later"

  depends_on "rust" => :build

  def install
    ENV["RUKH_COMMIT"] = "@COMMIT@"
    system "cargo", "install", *std_cargo_args
    (man6/"rukh.6").write Utils.safe_popen_read(bin/"rukh", "man")
    generate_completions_from_executable(bin/"rukh", "completions")
    doc.install "README.md", "CHANGELOG.md", "docs"
  end

  test do
    output = pipe_output(bin/"rukh", "go nodes 100\nwait\nquit\n")
    assert_match "bestmove", output
  end
end
