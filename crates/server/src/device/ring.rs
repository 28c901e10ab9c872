//! Ring of a device thread as a trait: sockets, the device and the clock, so that tests can put a simulated world in its
//! place. Each operation means what the one of the same name of [`weir_uring::Ring`] means.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvFlags, recv};
use weir_uring::{
    Backend, BufferPool, Completion, Disk, DiskExtent, Durability, IoBuf, Message, Ring, Socket,
    SyncFailures, ZeroOptions, monotonic_ns,
};

use super::clients::Peer;

/// Operations of a device thread.
pub(super) trait DeviceRing {
    /// The clock, in nanoseconds.
    fn now_ns(&self) -> u64;
    fn wait(&mut self, deadline_ns: Option<u64>) -> io::Result<()>;
    fn poll_completion(&mut self) -> Option<Completion>;
    fn cancel_all(&mut self, within_ns: u64) -> usize;
    fn pool(&self) -> &BufferPool;
    fn message(&mut self) -> Message;

    /// The client at the other end of an accepted connection. `serial` tells unknown ones apart.
    fn peer(&self, connection: &OwnedFd, serial: u64) -> Peer;
    fn add_socket(&mut self, fd: OwnedFd) -> io::Result<Socket>;
    /// Another descriptor of a socket, for another thread.
    fn duplicate(&self, socket: &Socket) -> io::Result<OwnedFd>;
    /// Bytes that have arrived and are not received yet; 0 where the system does not say.
    fn unread(&self, socket: &Socket) -> u64;
    /// Copies bytes that have arrived, and leaves them there.
    fn peek(&self, socket: &Socket, bytes: &mut [u8]) -> usize;
    fn receive(&mut self, socket: &Socket, token: u64);
    fn receive_into(&mut self, socket: &Socket, buffer: IoBuf, from: usize, token: u64);
    fn send(&mut self, socket: &Socket, message: Message, token: u64);
    fn close(&mut self, socket: Socket, token: u64);
    fn release(&mut self, socket: Socket, token: u64);

    fn attach(&mut self, backend: Backend) -> Disk;
    fn read(&mut self, disk: &Disk, offset: u64, buffer: IoBuf, token: u64);
    fn write(
        &mut self,
        disk: &Disk,
        offset: u64,
        buffer: IoBuf,
        durability: Durability,
        token: u64,
    );
    fn flush(&mut self, disk: &Disk, token: u64);
    fn trim(&mut self, disk: &Disk, offset: u64, len: u64, durability: Durability, token: u64);
    fn write_zeroes(
        &mut self,
        disk: &Disk,
        offset: u64,
        len: u64,
        options: ZeroOptions,
        token: u64,
    );
    fn prefetch(&mut self, disk: &Disk, offset: u64, len: u32, token: u64);
    fn extent(&mut self, disk: &Disk, offset: u64, end: u64) -> io::Result<DiskExtent>;
    fn warm(&mut self, disk: &Disk, range: Range<u64>, pages_max: usize) -> io::Result<Range<u64>>;
    fn look(&mut self, disk: &Disk) -> u64;
    fn grow(&mut self, disk: &mut Disk) -> u64;
    fn sync_failures(&self, disk: &Disk) -> SyncFailures;
}

impl DeviceRing for Ring {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn wait(&mut self, deadline_ns: Option<u64>) -> io::Result<()> {
        Ring::wait(self, deadline_ns)
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        Ring::poll_completion(self)
    }

    fn cancel_all(&mut self, within_ns: u64) -> usize {
        Ring::cancel_all(self, within_ns)
    }

    fn pool(&self) -> &BufferPool {
        Ring::pool(self)
    }

    fn message(&mut self) -> Message {
        Ring::message(self)
    }

    fn peer(&self, connection: &OwnedFd, serial: u64) -> Peer {
        Peer::of(connection.as_fd(), serial)
    }

    fn add_socket(&mut self, fd: OwnedFd) -> io::Result<Socket> {
        Ring::add_socket(self, fd)
    }

    fn duplicate(&self, socket: &Socket) -> io::Result<OwnedFd> {
        self.socket_fd(socket).try_clone_to_owned()
    }

    fn unread(&self, socket: &Socket) -> u64 {
        rustix::io::ioctl_fionread(self.socket_fd(socket)).unwrap_or(0)
    }

    fn peek(&self, socket: &Socket, bytes: &mut [u8]) -> usize {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(self.socket_fd(socket), bytes, flags).map_or(0, |(len, _)| len)
    }

    fn receive(&mut self, socket: &Socket, token: u64) {
        Ring::receive(self, socket, token);
    }

    fn receive_into(&mut self, socket: &Socket, buffer: IoBuf, from: usize, token: u64) {
        Ring::receive_into(self, socket, buffer, from, token);
    }

    fn send(&mut self, socket: &Socket, message: Message, token: u64) {
        Ring::send(self, socket, message, token);
    }

    fn close(&mut self, socket: Socket, token: u64) {
        Ring::close(self, socket, token);
    }

    fn release(&mut self, socket: Socket, token: u64) {
        Ring::release(self, socket, token);
    }

    fn attach(&mut self, backend: Backend) -> Disk {
        Ring::attach(self, backend)
    }

    fn read(&mut self, disk: &Disk, offset: u64, buffer: IoBuf, token: u64) {
        Ring::read(self, disk, offset, buffer, token);
    }

    fn write(
        &mut self,
        disk: &Disk,
        offset: u64,
        buffer: IoBuf,
        durability: Durability,
        token: u64,
    ) {
        Ring::write(self, disk, offset, buffer, durability, token);
    }

    fn flush(&mut self, disk: &Disk, token: u64) {
        Ring::flush(self, disk, token);
    }

    fn trim(&mut self, disk: &Disk, offset: u64, len: u64, durability: Durability, token: u64) {
        Ring::trim(self, disk, offset, len, durability, token);
    }

    fn write_zeroes(
        &mut self,
        disk: &Disk,
        offset: u64,
        len: u64,
        options: ZeroOptions,
        token: u64,
    ) {
        Ring::write_zeroes(self, disk, offset, len, options, token);
    }

    fn prefetch(&mut self, disk: &Disk, offset: u64, len: u32, token: u64) {
        Ring::prefetch(self, disk, offset, len, token);
    }

    fn extent(&mut self, disk: &Disk, offset: u64, end: u64) -> io::Result<DiskExtent> {
        Ring::extent(self, disk, offset, end)
    }

    fn warm(&mut self, disk: &Disk, range: Range<u64>, pages_max: usize) -> io::Result<Range<u64>> {
        Ring::warm(self, disk, range, pages_max)
    }

    fn look(&mut self, disk: &Disk) -> u64 {
        Ring::look(self, disk)
    }

    fn grow(&mut self, disk: &mut Disk) -> u64 {
        Ring::grow(self, disk)
    }

    fn sync_failures(&self, disk: &Disk) -> SyncFailures {
        Ring::sync_failures(self, disk)
    }
}
