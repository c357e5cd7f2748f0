"""The proof: one slow node and one slow link in a real cluster are found, tested, named, remembered, planned around."""
