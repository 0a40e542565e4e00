//! The `[shape]` of a machine file: which core lies where, and how far the nodes are apart.
//!
//! Cores are numbered through sockets, nodes and clusters in that order. A shape is never a range.

use super::document::{Document, Matrix, Placed, Table};
use super::error::{MachineFileError, Problem};
use super::model::Shape;
use raid::units::NodeId;

/// The most cores of one machine.
const CORES_MAX: u64 = 4096;
/// A node to itself, as the firmware's table has it.
const DISTANCE_TO_SELF: u64 = 10;
/// What the firmware's table says of nodes that cannot reach each other.
const DISTANCE_UNREACHABLE: u64 = 255;

/// A value of a file that is never a range, as the file gives it, for showing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    /// Dotted from the top of the file.
    pub(super) key: String,
    pub(super) text: String,
    pub(super) source: String,
}

/// The shape, the facts that it is made of, and its distance matrix with its place.
pub(super) struct CheckedShape<'a> {
    pub(super) shape: Shape,
    pub(super) facts: Vec<Fact>,
    pub(super) slit: Placed<Matrix>,
    pub(super) document: Document<'a>,
}

/// Reads the table `[shape]`.
pub(super) fn read<'a>(
    document: Document<'a>,
    table: &Table<'a>,
) -> Result<CheckedShape<'a>, MachineFileError> {
    const COUNTS: [&str; 4] =
        ["sockets", "nodes_per_socket", "clusters_per_node", "cores_per_cluster"];
    let known = [COUNTS[0], COUNTS[1], COUNTS[2], COUNTS[3], "slit", "line_bytes"];
    table.refuse_unknown(&known)?;
    let mut facts = Vec::new();
    let mut counts = [0_u64; 4];
    for (count, key) in counts.iter_mut().zip(COUNTS) {
        let Placed { value: number, key: number_key, .. } =
            table.number(key, (1, CORES_MAX), false)?;
        *count = number.value;
        facts.push(Fact { key: number_key, text: count.to_string(), source: number.source });
    }
    let cores: u64 = counts.iter().product();
    if cores > CORES_MAX {
        return Err(table.error_of(COUNTS[3], Problem::TooManyCores { cores, limit: CORES_MAX }));
    }
    let (slit, source) = table.matrix("slit")?;
    let [sockets, nodes_per_socket, clusters_per_node, cores_per_cluster] =
        counts.map(|count| count as u32);
    check_slit(document, &slit, sockets * nodes_per_socket)?;
    facts.push(Fact { key: slit.key.clone(), text: matrix_text(&slit.value), source });
    let line = table.number("line_bytes", (32, 128), false)?;
    if !line.value.value.is_power_of_two() {
        let problem = Problem::NotAPowerOfTwo { number: line.value.value };
        return Err(document.error_at(&line, problem));
    }
    let line_text = format!("{} B", line.value.value);
    facts.push(Fact { key: line.key, text: line_text, source: line.value.source });

    let cores_per_node = clusters_per_node * cores_per_cluster;
    let shape = Shape {
        cluster_of_cpu: (0..cores as u32).map(|cpu| cpu / cores_per_cluster).collect(),
        node_of_cpu: (0..cores as u32).map(|cpu| NodeId(cpu / cores_per_node)).collect(),
        socket_of_node: (0..sockets * nodes_per_socket)
            .map(|node| node / nodes_per_socket)
            .collect(),
        distance: slit
            .value
            .iter()
            .map(|row| row.iter().map(|distance| *distance as u32).collect())
            .collect(),
        line_bytes: line.value.value as u32,
    };
    Ok(CheckedShape { shape, facts, slit, document })
}

impl CheckedShape<'_> {
    /// Whether any two nodes are apart, so that transfers between nodes need prices.
    pub(super) fn has_remote_nodes(&self) -> bool {
        self.shape.distance.len() > 1
    }

    /// Refuses a distance between nodes that `priced` does not hold.
    pub(super) fn require_transfer_costs(&self, priced: &[u32]) -> Result<(), MachineFileError> {
        for (row, distances) in self.shape.distance.iter().enumerate() {
            for (column, distance) in distances.iter().enumerate() {
                if row != column && !priced.contains(distance) {
                    let distance = *distance;
                    let problem = Problem::NoTransferCost { row, column, distance };
                    return Err(self.document.error_at(&self.slit, problem));
                }
            }
        }
        Ok(())
    }

    /// Whether two nodes lie at this distance.
    pub(super) fn has_distance(&self, distance: u32) -> bool {
        self.shape.distance.iter().enumerate().any(|(row, distances)| {
            distances.iter().enumerate().any(|(column, it)| row != column && *it == distance)
        })
    }
}

fn check_slit(
    document: Document<'_>,
    slit: &Placed<Matrix>,
    nodes: u32,
) -> Result<(), MachineFileError> {
    let wrong_size = |found| {
        let problem = Problem::SlitNotSquare { nodes, found };
        Err(document.error_at(slit, problem))
    };
    if slit.value.len() != nodes as usize {
        return wrong_size(format!("found {} rows", slit.value.len()));
    }
    for (row, distances) in slit.value.iter().enumerate() {
        if distances.len() != nodes as usize {
            return wrong_size(format!("row {row} has {}", distances.len()));
        }
        for (column, distance) in distances.iter().enumerate() {
            let expected = match (row == column, *distance) {
                (true, DISTANCE_TO_SELF) => continue,
                (true, _) => "10, a node's distance to itself",
                (false, distance)
                    if distance > DISTANCE_TO_SELF && distance < DISTANCE_UNREACHABLE =>
                {
                    continue;
                }
                (false, _) => "11 to 254 between two nodes",
            };
            let problem = Problem::SlitDistance { row, column, distance: *distance, expected };
            return Err(document.error_at(slit, problem));
        }
    }
    Ok(())
}

fn matrix_text(rows: &[Vec<u64>]) -> String {
    let row_text = |row: &Vec<u64>| {
        let cells: Vec<String> = row.iter().map(u64::to_string).collect();
        cells.join(" ")
    };
    let rows: Vec<String> = rows.iter().map(row_text).collect();
    rows.join(" / ")
}
