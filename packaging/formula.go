package main

import (
	"fmt"
	"slices"
	"strings"
)

// formula writes the Homebrew formula, which installs the program of an archive. It needs the URL of the archives, so
// there is none without.
func (r *release) formula(made []target) error {
	if r.url == "" {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, `class Holdfast < Formula
  desc "Distributed locks on ZooKeeper, for programs and for the shell"
  homepage %q
  version %q
  license %q

`, r.url, r.number(), r.licenses["holdfast"])
	systems := []struct{ os, block string }{{"darwin", "on_macos"}, {"linux", "on_linux"}}
	for _, system := range systems {
		fmt.Fprintf(&b, "  %s do\n", system.block)
		for _, cpu := range []struct{ arch, block string }{{"amd64", "on_intel"}, {"arm64", "on_arm"}} {
			if !slices.Contains(made, target{system.os, cpu.arch}) {
				continue
			}
			name := fmt.Sprintf("holdfast_%s_%s_%s.tar.gz", r.number(), system.os, cpu.arch)
			sum, err := sumOf(r.file("%s", name))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "    %s do\n      url %q\n      sha256 %q\n    end\n", cpu.block, strings.TrimSuffix(r.url, "/")+"/"+name, sum)
		}
		b.WriteString("  end\n\n")
	}
	b.WriteString("  def install\n")
	for _, name := range r.programs {
		fmt.Fprintf(&b, "    bin.install %q\n", name)
	}
	b.WriteString(`    man1.install Dir["man/*.1"]
    man7.install Dir["man/*.7"]
    bash_completion.install "completions/holdfast.bash" => "holdfast"
    zsh_completion.install "completions/_holdfast"
    fish_completion.install "completions/holdfast.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/holdfast version")
    ENV["HOLDFAST_SERVER"] = "file://#{testpath}/store"
    assert_equal "held", shell_output("#{bin}/holdfast run job -- echo held").strip
  end
end
`)
	return write(r.file("holdfast.rb"), []byte(b.String()))
}
