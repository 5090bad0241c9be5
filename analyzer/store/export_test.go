package store

// SetStep has f called before each step of d's Put.
func SetStep(d *Disk, f func(string)) { d.step = f }
