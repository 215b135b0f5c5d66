"""Tables of mixed types with planted errors: are they found, and is the column named?

`python -m benchmarks mixed-tables` trains on one half of each table. In the other half it changes
one cell, or swaps two, in 5 % of the rows, as a person who types would. No data is part of this
package: the tables are built from installed packages and from the UCI files.
"""
