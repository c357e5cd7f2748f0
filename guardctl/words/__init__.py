"""The words of the house: errors, records and policy. Pure; every other room imports from here, it imports none."""
