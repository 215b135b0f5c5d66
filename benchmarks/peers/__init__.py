"""The same losses written by hand and with other packages.

The modules named after a package need it. They are imported only if it is installed.
"""
