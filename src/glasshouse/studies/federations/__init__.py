"""Studies of federations: data sets x models x defenses x seeds, each trained by Flower, then tested and asked."""
