"""Studies over a grid: data sets x models x training recipes x seeds, each trained, then attacked in every way."""
