package policy

import "strings"

// bareWord finds the first value on a line that TOML wants in quotes: a word, an address or a time as in "start = boot". It is empty when the
// line has none.
func bareWord(line string) string {
	for {
		key, after, found := strings.Cut(line, "=")
		if !found || strings.ContainsAny(key, "#") {
			return ""
		}
		line = strings.TrimLeft(after, " \t[")
		if line != "" && (line[0] == '"' || line[0] == '\'') { // a string: go on behind it
			_, line, _ = strings.Cut(line[1:], line[:1])
			continue
		}
		end := strings.IndexAny(line, " \t\r\n,]}{#\"'=")
		if end < 0 {
			end = len(line)
		}
		if word := line[:end]; word != "" && !bareValue(word) {
			return word
		}
	}
}

// bareValue: what TOML takes without quotes among our values, whole numbers and true and false.
func bareValue(word string) bool {
	return word == "true" || word == "false" || strings.Trim(word, "+-_0123456789") == ""
}
