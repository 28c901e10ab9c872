//! Device threads, exports, and the control API.
