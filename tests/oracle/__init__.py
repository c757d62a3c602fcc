"""A naive second reading of the protocol: dicts and lists, written from its text alone, to judge the gateway by."""
