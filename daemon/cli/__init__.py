"""The commands of `hierogram`, by topic; what they need is imported when they run, so that help is there at once."""
