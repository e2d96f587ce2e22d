//! A checksum over the columns of a row that has no other. It detects rows that differ from what was written; it is not
//! a signature.

/// A column in a checksum.
#[derive(Clone, Copy)]
pub(crate) enum Column<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

/// A CRC-32 over the columns, with their lengths, so that the boundaries between texts are covered.
pub(crate) fn checksum(columns: &[Column<'_>]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for column in columns {
        match column {
            Column::Number(number) => hasher.update(&number.to_le_bytes()),
            Column::Bytes(bytes) => {
                hasher.update(&(bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
        }
    }
    hasher.finalize()
}

/// Like [`checksum`], over texts only.
pub(crate) fn checksum_of_texts(texts: &[&str]) -> u32 {
    let columns: Vec<Column<'_>> = texts.iter().map(|text| Column::Bytes(text.as_bytes())).collect();
    checksum(&columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_cannot_move_between_neighbours() {
        assert_ne!(checksum_of_texts(&["ab", "c"]), checksum_of_texts(&["a", "bc"]));
        assert_ne!(checksum_of_texts(&["ab"]), checksum_of_texts(&["ab", ""]));
    }
}
