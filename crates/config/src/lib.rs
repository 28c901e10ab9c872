//! The file a person writes, made into a valid configuration; errors with their line.
