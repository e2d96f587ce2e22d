//! A socket of the proxy, over TCP or in the file system. It never blocks once it is connected.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use windlass::bench::endpoint::Endpoint;

pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Takes an accepted connection.
    pub(super) fn accepted(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        // Chunks are sent as they were received; waiting for more would add to the delay.
        stream.set_nodelay(true)?;
        Ok(Socket::Tcp(stream))
    }

    /// Connects to a server.
    pub(super) fn connect(to: &Endpoint) -> io::Result<Socket> {
        match to {
            Endpoint::Tcp(host, port) => Socket::accepted(TcpStream::connect((host.as_str(), *port))?),
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(Socket::Unix(stream))
            }
        }
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).read(into),
            Socket::Unix(stream) => (&*stream).read(into),
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).write(bytes),
            Socket::Unix(stream) => (&*stream).write(bytes),
        }
    }

    /// Ends what is written to it.
    pub(super) fn end(&self) {
        // The other side may have closed it already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}
