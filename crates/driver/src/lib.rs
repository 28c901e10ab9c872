//! The one loop that joins an engine, a clock and a device.
