//! End-to-end tests: one file for each client and behaviour. See `weir_tests` for what they share.

mod fio_verify;
mod libnbd_block_status;
mod libnbd_coherence;
mod libnbd_commands;
mod libnbd_errors;
mod libnbd_handshake;
mod libnbd_neighbours;
mod libnbd_replies;
mod nbdcopy_both_ways;
mod nbdcopy_holes;
mod nbdinfo_json;
mod nbdinfo_list;
mod nbdinfo_map;
mod qemu_img_convert;
mod qemu_img_map;
mod qemu_io_patterns;
mod qemu_io_zeroes;
mod qemu_qcow2;
