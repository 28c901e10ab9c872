//! Rows by column, and the schema of the files.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::entry::{OPS, op_name};
use crate::row::{Event, Row};

/// Version of the schema. A reader refuses others.
pub const VERSION: u32 = 1;

/// Columns, in order. `docs/recording.md` says what each means.
const SCHEMA: &str = "message weir {
  REQUIRED INT64 time (TIMESTAMP(NANOS, true));
  OPTIONAL INT64 step;
  REQUIRED BYTE_ARRAY event (STRING);
  OPTIONAL BYTE_ARRAY cgroup (STRING);
  OPTIONAL BYTE_ARRAY op (STRING);
  OPTIONAL INT64 offset;
  OPTIONAL INT64 length;
  OPTIONAL INT64 latency_ns;
  OPTIONAL INT64 wait_ns;
  OPTIONAL INT64 submitted;
  OPTIONAL INT64 dispatched;
  OPTIONAL INT64 client;
  OPTIONAL INT64 task;
  OPTIONAL BYTE_ARRAY detail (STRING);
}";

/// Columns whose values are near those of the row before.
const NEAR: [&str; 6] = ["time", "step", "latency_ns", "wait_ns", "submitted", "dispatched"];

/// The schema.
pub(crate) fn schema() -> TypePtr {
    Arc::new(parse_message_type(SCHEMA).expect("the schema is right"))
}

/// Properties of the files.
pub(crate) fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).expect("a level of zstd");
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        // Readers pass over row groups by the time alone.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("time"), EnabledStatistics::Chunk)
        .set_created_by(concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned());
    for column in NEAR {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(column), false)
            .set_column_encoding(ColumnPath::from(column), Encoding::DELTA_BINARY_PACKED);
    }
    let offset = ColumnPath::from("offset");
    properties
        .set_column_dictionary_enabled(offset.clone(), false)
        .set_column_encoding(offset, Encoding::PLAIN)
        .build()
}

/// Values of an optional column.
#[derive(Debug)]
struct Optional<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Optional<T> {
        Optional { values: Vec::new(), levels: Vec::new() }
    }
}

impl<T> Optional<T> {
    #[inline]
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// Rows of a row group that is not written yet.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// From the engine's clock to that of the world.
    clock_offset_ns: i64,
    time: Vec<i64>,
    step: Optional<i64>,
    event: Vec<ByteArray>,
    cgroup: Optional<ByteArray>,
    op: Optional<ByteArray>,
    offset: Optional<i64>,
    length: Optional<i64>,
    latency_ns: Optional<i64>,
    wait_ns: Optional<i64>,
    submitted: Optional<i64>,
    dispatched: Optional<i64>,
    client: Optional<i64>,
    task: Optional<i64>,
    detail: Optional<ByteArray>,
    names: Names,
}

/// Names that are written for nearly each row: a copy of one costs nothing.
#[derive(Debug)]
struct Names {
    events: Vec<ByteArray>,
    ops: Vec<ByteArray>,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            events: Event::ALL.into_iter().map(|event| ByteArray::from(event.name())).collect(),
            ops: OPS.into_iter().map(|op| ByteArray::from(op_name(op))).collect(),
        }
    }
}

impl Columns {
    /// For rows whose instants are so far from the world's time.
    pub(crate) fn new(clock_offset_ns: i64) -> Columns {
        Columns { clock_offset_ns, ..Columns::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.time.len()
    }

    pub(crate) fn push(&mut self, row: Row) {
        let number = |value: Option<u64>| value.map(|value| value as i64);
        self.time.push((row.time_ns as i64).wrapping_add(self.clock_offset_ns));
        self.step.push(number(row.step));
        self.event.push(self.names.events[row.event as usize].clone());
        self.cgroup.push(row.cgroup);
        self.op.push(row.op.map(|op| self.names.ops[op as usize].clone()));
        self.offset.push(number(row.offset));
        self.length.push(number(row.length));
        self.latency_ns.push(number(row.latency_ns));
        self.wait_ns.push(number(row.wait_ns));
        self.submitted.push(number(row.submitted));
        self.dispatched.push(number(row.dispatched));
        self.client.push(number(row.client));
        self.task.push(number(row.task));
        self.detail.push(row.detail);
    }

    /// Writes all rows as one row group, and forgets them.
    pub(crate) fn write<W: std::io::Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<()> {
        let mut group = file.next_row_group()?;
        required::<Int64Type, _>(&mut group, &self.time)?;
        optional::<Int64Type, _>(&mut group, &self.step)?;
        required::<ByteArrayType, _>(&mut group, &self.event)?;
        optional::<ByteArrayType, _>(&mut group, &self.cgroup)?;
        optional::<ByteArrayType, _>(&mut group, &self.op)?;
        for numbers in [
            &self.offset,
            &self.length,
            &self.latency_ns,
            &self.wait_ns,
            &self.submitted,
            &self.dispatched,
            &self.client,
            &self.task,
        ] {
            optional::<Int64Type, _>(&mut group, numbers)?;
        }
        optional::<ByteArrayType, _>(&mut group, &self.detail)?;
        group.close()?;
        self.clear();
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.time.clear();
        self.event.clear();
        for texts in [&mut self.cgroup, &mut self.op, &mut self.detail] {
            texts.clear();
        }
        for numbers in [
            &mut self.step,
            &mut self.offset,
            &mut self.length,
            &mut self.latency_ns,
            &mut self.wait_ns,
            &mut self.submitted,
            &mut self.dispatched,
            &mut self.client,
            &mut self.task,
        ] {
            numbers.clear();
        }
    }
}

fn required<T: DataType, W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> Result<()> {
    let mut column = group.next_column()?.expect("a column of the schema");
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

fn optional<T: DataType, W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Optional<T::T>,
) -> Result<()> {
    let mut writer = group.next_column()?.expect("a column of the schema");
    writer.typed::<T>().write_batch(&column.values, Some(&column.levels), None)?;
    writer.close()
}
