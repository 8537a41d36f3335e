//! One end of the control socket: frames in both directions.
//!
//! | at | bytes | what                                        |
//! | -- | ----- | ------------------------------------------- |
//! |  0 |     2 | magic, `LC`                                 |
//! |  2 |     1 | version of the messages                     |
//! |  3 |     1 | kind of message                             |
//! |  4 |     4 | how many bytes follow, little-endian        |
//! |  8 |     4 | how many descriptors belong to it           |

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::message::{Message, MessageError};

/// One end of the control socket.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    decoder: Decoder,
}

/// Why the channel cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket failed.
    #[error("the control socket failed")]
    Io(#[from] io::Error),
    /// The received bytes are not one of our frames.
    #[error("what came over the control socket is no frame of this version")]
    NotOurs,
    /// A frame is larger than any we send.
    #[error("a control frame announces {bytes} bytes and {descriptors} descriptors")]
    TooLarge {
        /// Announced bytes.
        bytes: usize,
        /// Announced descriptors.
        descriptors: usize,
    },
    /// Descriptors were lost, most likely because of a system limit.
    #[error("descriptors were lost on the way: is the limit of open files too low?")]
    DescriptorsLost,
    /// The other end closed the socket in the middle of a frame.
    #[error("the control socket was closed in the middle of a frame")]
    Cut,
    /// The content of a frame is not a message.
    #[error(transparent)]
    Message(#[from] MessageError),
}

impl Channel {
    /// A channel over one end of a socket pair. Needs a tokio runtime.
    pub fn new(stream: net::UnixStream) -> io::Result<Channel> {
        stream.set_nonblocking(true)?;
        Ok(Channel { stream: UnixStream::from_std(stream)?, decoder: Decoder::default() })
    }

    /// Sends `message` with its descriptors.
    pub async fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> Result<(), ControlError> {
        let frame = encode(message, descriptors.len())?;
        let mut batches = descriptors.chunks(DESCRIPTORS_A_CALL);
        // Every batch of descriptors has to be sent with some bytes, the last batch before the last byte.
        let pieces = batches.len().max(1);
        let piece_bytes = (frame.len() / pieces).clamp(1, BYTES_A_CALL);
        let mut rest = &frame[..];
        while !rest.is_empty() {
            let batch = batches.next().unwrap_or_default();
            let (piece, _) = rest.split_at(piece_bytes.min(rest.len()));
            let sent = self.send_some(piece, batch).await?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    /// Sends some of `bytes`, and all of `descriptors` with the first byte.
    async fn send_some(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        loop {
            self.stream.writable().await?;
            let outcome = self.stream.try_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_A_CALL))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !descriptors.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(descriptors));
                }
                Ok(sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
            });
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// The next message with its descriptors. `None` if the other end is gone. The future may be dropped while it
    /// waits.
    pub async fn receive(&mut self) -> Result<Option<(Message, Vec<OwnedFd>)>, ControlError> {
        loop {
            if let Some(frame) = self.decoder.next()? {
                return Ok(Some(frame));
            }
            self.stream.readable().await?;
            match self.receive_some() {
                Ok(0) if self.decoder.is_empty() => return Ok(None),
                Ok(0) => return Err(ControlError::Cut),
                Ok(_) => {}
                Err(ControlError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(ControlError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // A process that ended with unread data resets the socket.
                Err(ControlError::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn receive_some(&mut self) -> Result<usize, ControlError> {
        let mut bytes = vec![0; BYTES_A_CALL];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_A_CALL))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let stream = &self.stream;
        let received = stream.try_io(Interest::READABLE, || {
            let mut room = [IoSliceMut::new(&mut bytes)];
            Ok(recvmsg(stream.as_fd(), &mut room, &mut control, RecvFlags::CMSG_CLOEXEC)?)
        })?;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                self.decoder.descriptors.extend(descriptors);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ControlError::DescriptorsLost);
        }
        let length = received.bytes.min(bytes.len());
        self.decoder.bytes.extend(&bytes[..length]);
        Ok(length)
    }
}

/// The bytes of a frame.
fn encode(message: &Message, descriptors: usize) -> Result<Vec<u8>, ControlError> {
    let body = message.to_bytes();
    let (bytes, descriptors) = check_size(body.len(), descriptors)?;
    let mut frame = Vec::with_capacity(HEAD_BYTES + body.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&[VERSION, message.kind()]);
    frame.extend_from_slice(&bytes.to_le_bytes());
    frame.extend_from_slice(&descriptors.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

fn check_size(bytes: usize, descriptors: usize) -> Result<(u32, u32), ControlError> {
    let too_large = ControlError::TooLarge { bytes, descriptors };
    if bytes > FRAME_BYTES_MAX || descriptors > FRAME_DESCRIPTORS_MAX {
        return Err(too_large);
    }
    match (u32::try_from(bytes), u32::try_from(descriptors)) {
        (Ok(bytes), Ok(descriptors)) => Ok((bytes, descriptors)),
        _ => Err(too_large),
    }
}

/// Received bytes and descriptors that are not decoded yet.
#[derive(Debug, Default)]
struct Decoder {
    bytes: VecDeque<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Decoder {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The first message, if it is complete.
    fn next(&mut self) -> Result<Option<(Message, Vec<OwnedFd>)>, ControlError> {
        let Some((kind, bytes, descriptors)) = self.head()? else {
            return Ok(None);
        };
        if self.bytes.len() < HEAD_BYTES + bytes {
            return Ok(None);
        }
        if self.descriptors.len() < descriptors {
            return Err(ControlError::DescriptorsLost);
        }
        self.bytes.drain(..HEAD_BYTES);
        let body: Vec<u8> = self.bytes.drain(..bytes).collect();
        let descriptors = self.descriptors.drain(..descriptors).collect();
        Ok(Some((Message::from_bytes(kind, &body)?, descriptors)))
    }

    /// Kind, bytes and descriptors of the first frame. Wrong bytes are refused as soon as they arrive.
    fn head(&self) -> Result<Option<(u8, usize, usize)>, ControlError> {
        let head: Vec<u8> = self.bytes.iter().take(HEAD_BYTES).copied().collect();
        let expected = [MAGIC[0], MAGIC[1], VERSION];
        if head.iter().zip(&expected).any(|(byte, expected)| byte != expected) {
            return Err(ControlError::NotOurs);
        }
        let &[_, _, _, kind, a, b, c, d, e, f, g, h] = &head[..] else {
            return Ok(None);
        };
        let bytes = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let descriptors = usize::try_from(u32::from_le_bytes([e, f, g, h])).unwrap_or(usize::MAX);
        check_size(bytes, descriptors)?;
        Ok(Some((kind, bytes, descriptors)))
    }
}

const MAGIC: [u8; 2] = *b"LC";
/// Changes with every change of a message. A serving process is started from the same file as its supervisor, so both
/// have the same version.
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 12;
const FRAME_BYTES_MAX: usize = 64 << 20;
const FRAME_DESCRIPTORS_MAX: usize = 1 << 20;
/// How many descriptors one call sends; Linux allows 253.
const DESCRIPTORS_A_CALL: usize = 250;
const BYTES_A_CALL: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, Write};

    use super::*;
    use crate::control::message::tests::examples;

    fn pair() -> (Channel, Channel) {
        let (a, b) = net::UnixStream::pair().unwrap();
        (Channel::new(a).unwrap(), Channel::new(b).unwrap())
    }

    #[test]
    fn a_frame_is_read_whole_or_not_yet() {
        for message in examples() {
            let frame = encode(&message, 0).unwrap();
            for length in 0..frame.len() {
                let mut decoder = Decoder::default();
                decoder.bytes.extend(&frame[..length]);
                assert!(decoder.next().unwrap().is_none(), "{length} bytes of {message:?}");
                decoder.bytes.extend(&frame[length..]);
                let (back, _) = decoder.next().unwrap().unwrap();
                assert_eq!(format!("{back:?}"), format!("{message:?}"));
                assert!(decoder.is_empty());
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_at_once() {
        for (bytes, expected) in [
            (&b"G"[..], "no frame"),
            (b"LX", "no frame"),
            (b"LC\x09", "no frame"),
            (b"LC\x01\x03\xff\xff\xff\xff\0\0\0\0", "announces 4294967295 bytes"),
            (b"LC\x01\x03\0\0\0\0\0\0\0\xff", "4278190080 descriptors"),
            (b"LC\x01\x63\0\0\0\0\0\0\0\0", "unknown tag 99"),
            (b"LC\x01\x03\0\0\0\0\x01\0\0\0", "descriptors were lost"),
        ] {
            let mut decoder = Decoder::default();
            decoder.bytes.extend(bytes);
            let error = decoder.next().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn descriptors_arrive_in_order_however_many() {
        for count in [0_usize, 1, 250, 251, 620] {
            let (one, mut other) = pair();
            let files: Vec<File> = (0..count)
                .map(|number| {
                    let mut file = tempfile::tempfile().unwrap();
                    write!(file, "{number}").unwrap();
                    file.rewind().unwrap();
                    file
                })
                .collect();
            let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            // The shortest message there is, so that there are few bytes for the descriptors to go with.
            let sending = async {
                one.send(&Message::Ready, &borrowed).await.unwrap();
                one.send(&Message::Reopen(Vec::new()), &[]).await.unwrap();
            };
            let receiving = async {
                let (message, descriptors) = other.receive().await.unwrap().unwrap();
                assert!(matches!(message, Message::Ready));
                assert_eq!(descriptors.len(), count);
                for (number, descriptor) in descriptors.into_iter().enumerate() {
                    let text = io::read_to_string(File::from(descriptor)).unwrap();
                    assert_eq!(text, number.to_string());
                }
                let (message, _) = other.receive().await.unwrap().unwrap();
                assert!(matches!(message, Message::Reopen(_)));
            };
            tokio::join!(sending, receiving);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_large_message_passes_and_a_larger_one_is_not_sent() {
        let (one, mut other) = pair();
        let text = "x".repeat(5 << 20);
        let message = Message::Refused(text.clone());
        let (sent, received) = tokio::join!(one.send(&message, &[]), other.receive());
        sent.unwrap();
        assert!(matches!(received.unwrap(), Some((Message::Refused(back), _)) if back == text));
        let larger = Message::Refused("x".repeat(FRAME_BYTES_MAX));
        assert!(matches!(one.send(&larger, &[]).await, Err(ControlError::TooLarge { .. })));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_end_of_the_other_side_is_told_from_a_cut() {
        let (one, mut other) = pair();
        drop(one);
        assert!(other.receive().await.unwrap().is_none());

        let (mut raw, end) = net::UnixStream::pair().unwrap();
        let mut other = Channel::new(end).unwrap();
        raw.write_all(b"LC\x01").unwrap();
        drop(raw);
        assert!(matches!(other.receive().await, Err(ControlError::Cut)));
    }
}
