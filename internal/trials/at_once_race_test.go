//go:build race

package trials

// atOnce is smaller under the race detector, where everything takes several times as long
// and the times of the scripts stay as they are.
const atOnce = "3"
