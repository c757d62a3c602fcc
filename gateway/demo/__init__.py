"""The departures board: a real day of three airports, replayed."""
