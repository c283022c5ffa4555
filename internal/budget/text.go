package budget

import (
	"strings"
	"unicode/utf8"
)

// MaxText is how much of a text in a node is kept. Other programs write what they want there.
const MaxText = 4 << 10

// Text returns a text without what is beyond MaxText.
func Text(text string) string {
	if len(text) <= MaxText {
		return text
	}
	end := MaxText
	for end > MaxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + "…" // the rest can be freed
}

// Labels returns labels that are short together, and nil instead of others.
func Labels(labels map[string]string) map[string]string {
	size := 0
	for k, v := range labels {
		if size += len(k) + len(v); size > MaxText {
			return nil
		}
	}
	return labels
}
