//! Parameters of statements: single values, and whole columns as arrays, so that one statement writes a whole set. Only
//! concerned with the wire format.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A column of values, encoded as they are added.
pub(super) struct Column {
    element: Type,
    array: Type,
    count: i32,
    nulls: i32,
    body: BytesMut,
}

impl Column {
    fn new(element: Type, array: Type) -> Column {
        Column { element, array, count: 0, nulls: 0, body: BytesMut::new() }
    }

    /// An empty column of numbers.
    pub(super) fn numbers() -> Column {
        Column::new(Type::INT8, Type::INT8_ARRAY)
    }

    /// An empty column of bytes.
    pub(super) fn bytes() -> Column {
        Column::new(Type::BYTEA, Type::BYTEA_ARRAY)
    }

    /// An empty column of texts.
    pub(super) fn texts() -> Column {
        Column::new(Type::TEXT, Type::TEXT_ARRAY)
    }

    /// An empty column of ids.
    pub(super) fn ids() -> Column {
        Column::new(Type::UUID, Type::UUID_ARRAY)
    }

    /// An empty column of row locations (`ctid`).
    pub(super) fn rows_themselves() -> Column {
        Column::new(Type::TID, Type::TID_ARRAY)
    }

    /// A column of these numbers.
    pub(super) fn from_numbers(numbers: impl IntoIterator<Item = i64>) -> Column {
        let mut column = Column::numbers();
        for number in numbers {
            column.number(number);
        }
        column
    }

    /// Adds a number.
    pub(super) fn number(&mut self, number: i64) {
        self.push(&number.to_be_bytes());
    }

    /// Adds bytes, a text or an id.
    pub(super) fn push(&mut self, value: &[u8]) {
        self.count += 1;
        self.body.put_i32(i32::try_from(value.len()).expect("values are limited far below 2 GiB"));
        self.body.put_slice(value);
    }

    /// Adds a value or NULL.
    pub(super) fn push_maybe(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            return self.push(value);
        }
        self.count += 1;
        self.nulls += 1;
        self.body.put_i32(-1);
    }

    /// Whether it has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> u64 {
        u64::from(self.count.unsigned_abs())
    }
}

/// A value for a statement.
pub(super) enum Parameter {
    Number(Option<i64>),
    Bytes(Option<Vec<u8>>),
    Text(Option<String>),
    Id([u8; 16]),
    Truth(bool),
    Column(Column),
}

impl Parameter {
    /// Its type in the database.
    pub(super) fn kind(&self) -> Type {
        match self {
            Parameter::Number(_) => Type::INT8,
            Parameter::Bytes(_) => Type::BYTEA,
            Parameter::Text(_) => Type::TEXT,
            Parameter::Id(_) => Type::UUID,
            Parameter::Truth(_) => Type::BOOL,
            Parameter::Column(column) => column.array.clone(),
        }
    }
}

impl From<i64> for Parameter {
    fn from(number: i64) -> Parameter {
        Parameter::Number(Some(number))
    }
}

impl From<&str> for Parameter {
    fn from(text: &str) -> Parameter {
        Parameter::Text(Some(text.to_owned()))
    }
}

impl From<&[u8]> for Parameter {
    fn from(bytes: &[u8]) -> Parameter {
        Parameter::Bytes(Some(bytes.to_owned()))
    }
}

impl From<Column> for Parameter {
    fn from(column: Column) -> Parameter {
        Parameter::Column(column)
    }
}

// User data must not be logged.
impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of {}", self.kind())
    }
}

impl ToSql for Parameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Parameter::Number(Some(number)) => out.put_i64(*number),
            Parameter::Bytes(Some(bytes)) => out.put_slice(bytes),
            Parameter::Text(Some(text)) => out.put_slice(text.as_bytes()),
            Parameter::Id(id) => out.put_slice(id),
            Parameter::Truth(truth) => out.put_u8(u8::from(*truth)),
            Parameter::Column(column) if column.nulls < column.count => {
                out.put_i32(1);
                out.put_i32(i32::from(column.nulls > 0));
                out.put_u32(column.element.oid());
                out.put_i32(column.count);
                out.put_i32(1);
                out.put_slice(&column.body);
            }
            // A column of only NULLs is sent as no column: `unnest` fills it up, and it costs nothing.
            Parameter::Column(_)
            | Parameter::Number(None)
            | Parameter::Bytes(None)
            | Parameter::Text(None) => {
                return Ok(IsNull::Yes);
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // The statement was prepared for exactly these types.
        true
    }

    to_sql_checked!();
}
