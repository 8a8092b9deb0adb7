//go:build race

package trials

// atOnce is smaller under the race detector, where everything takes several times as long
// and the times of the scripts stay as they are.
const atOnce = "3"

// twoStores is false: the races that this build looks for are those of the executor.
const twoStores = false
