"""Binary formats of the published data sets."""
