"""What the comparisons share: servers, load, measurement, tables. Python 3.11, standard library only."""
