// Package spelling finds the word that a typing error meant.
package spelling

import "strings"

// Nearest returns the known word that a typing error of word most likely meant, or "". Case
// does not count.
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, bestDistance := "", 1+len(word)/3
	for _, k := range known {
		if d := editDistance(word, strings.ToLower(k)); d <= bestDistance {
			if d < bestDistance || best == "" {
				best, bestDistance = k, d
			}
		}
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours.
func editDistance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return 1 + longest
	}
	var before, last, row [longest + 1]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
