//! `--picture`: the torus and the tree network of a run, drawn with the bytes that went over each link (SPEC X-4).
//!
//! A link is drawn at the node that sends over it, from there half of the way: so the two directions of a cable do not
//! cover each other, a link that leads around the torus ends in the open, and any number of dimensions finds room. The
//! first two dimensions are those of a plane; each point of the others is a plane of its own, whose links stand askew.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use indicatif::DecimalBytes;
use pami::combine::tree::TreeShape;
use pami::topology::{Direction, TorusShape};

use crate::fabric::statistics::link_name;
use crate::fabric::{NodeStatistics, Traffic, TreeStatistics};
use crate::run::Outcome;

/// Pixels from node to node of the torus, along a line.
const PITCH: f64 = 92.0;
/// Pixels from level to level of the tree, and from node to node across.
const LEVEL: f64 = 64.0;
const COLUMN: f64 = 40.0;
/// Of a node.
const RADIUS: f64 = 15.0;
/// Pixels between what lies at the edge and the edge.
const MARGIN: f64 = 16.0;
/// Pixels that planes or networks beside each other may take, unless one alone takes more; and the least that one takes.
const MOST_WIDTH: f64 = 1100.0;
const LEAST_WIDTH: f64 = 440.0;
/// Pixels between planes.
const GAP: f64 = 24.0;
/// Of a line of text.
const LINE: f64 = 18.0;
/// So many of the busiest links are named.
const HOT: usize = 5;
/// Colours of links, from those with the fewest bytes to those with the most, and of those with none.
const COLOURS: [&str; 5] = ["#fdbe85", "#fd8d3c", "#e6550d", "#a63603", "#5c1d00"];
const UNUSED: &str = "#d0d0d0";
/// Where the links of each dimension stand that lead to higher places: parts of a turn, from the right, against the clock.
const ANGLES: [f64; 5] = [0.0, 0.25, 0.125, 0.375, 0.0625];

type Point = (f64, f64);

/// One direction of a cable.
struct Link {
    /// As in `0 to 1 (+x)`.
    name: String,
    traffic: Traffic,
    from: Point,
    to: Point,
}

/// A network as it lies on the plane.
#[derive(Default)]
struct Network {
    links: Vec<Link>,
    /// Middles of nodes, by rank.
    nodes: Vec<Point>,
    /// Words, with where they begin.
    captions: Vec<(Point, String)>,
    size: Point,
}

/// The whole picture, an SVG file.
pub fn svg(outcome: &Outcome) -> String {
    let asked = &outcome.asked;
    let title = format!("{} on {}, {} {}: bytes over links", asked.job, asked.torus, asked.board, asked.arch);
    let mut networks = vec![("torus", torus(asked.torus, &outcome.fabric.nodes))];
    networks
        .extend(outcome.fabric.tree.iter().filter(|it| it.steps > 0).map(|it| ("tree network", tree(it))));
    draw(&title, &networks)
}

fn torus(shape: TorusShape, counted: &[NodeStatistics]) -> Network {
    let (columns, rows) = (f64::from(shape.extent(0)), f64::from(shape.extent(1)));
    let (plane_width, plane_height) = (columns * PITCH + GAP, rows * PITCH + LINE + GAP);
    let beside = ((MOST_WIDTH - 2.0 * MARGIN) / plane_width).floor().max(1.0) as u32;
    let plane_nodes = u32::from(shape.extent(0)) * u32::from(shape.extent(1));
    let planes = shape.nodes() / plane_nodes;
    let mut network = Network::default();
    for plane in 0..planes {
        let corner =
            (f64::from(plane % beside) * plane_width, f64::from(plane / beside) * plane_height + GAP);
        if let Some(place) = shape.coord(plane * plane_nodes).filter(|_| shape.dimensions() > 2) {
            let names = (2..shape.dimensions()).map(|it| format!("{} = {}", axis(it), place.0[it]));
            let words = names.collect::<Vec<_>>().join(", ");
            network.captions.push(((corner.0 + MARGIN, corner.1), words));
        }
        for rank in plane * plane_nodes..(plane + 1) * plane_nodes {
            let Some(place) = shape.coord(rank) else { continue };
            // Higher places of the second dimension lie higher.
            let (column, row) = (f64::from(place.0[0]), rows - 1.0 - f64::from(place.0[1]));
            let middle = (corner.0 + (column + 0.5) * PITCH, corner.1 + LINE / 2.0 + (row + 0.5) * PITCH);
            network.nodes.push(middle);
            let own = counted.get(rank as usize).cloned().unwrap_or_default();
            network.links.extend(own.links_of(shape, rank).map(|(direction, next, traffic)| Link {
                name: link_name(rank, direction, next),
                traffic,
                from: middle,
                to: outwards(middle, direction),
            }));
        }
    }
    let across = planes.min(beside);
    network.size = (f64::from(across) * plane_width, f64::from(planes.div_ceil(beside)) * plane_height);
    network
}

/// Where the half of a link ends that is drawn at the node in the `middle`.
fn outwards(middle: Point, direction: Direction) -> Point {
    let turn = ANGLES[usize::from(direction.dimension)] + if direction.positive { 0.0 } else { 0.5 };
    let length = PITCH / 2.0 - 3.0;
    (middle.0 + length * (turn * TAU).cos(), middle.1 - length * (turn * TAU).sin())
}

/// The name of a dimension.
fn axis(dimension: usize) -> String {
    Direction { dimension: dimension as u8, positive: true }.to_string().replace('+', "")
}

fn tree(counted: &TreeStatistics) -> Network {
    let shape = TreeShape::new(counted.nodes.len() as u32);
    let mut columns = vec![0; counted.nodes.len()];
    across(shape, 0, &mut 0, &mut columns);
    let middle = |rank: u32| {
        let column = f64::from(columns[rank as usize]);
        ((column + 0.5) * COLUMN + MARGIN, f64::from(shape.depth(rank)) * LEVEL + RADIUS + GAP)
    };
    let mut network = Network { nodes: (0..shape.nodes()).map(middle).collect(), ..Network::default() };
    let ends = (0..shape.nodes()).filter_map(|rank| Some((middle(rank), middle(shape.parent(rank)?))));
    let ways = ends.flat_map(|(low, high)| [(low, high), (high, low)]);
    for ((from, to), (name, traffic)) in ways.zip(counted.links()) {
        // A gap in the middle tells the two ways apart.
        let short = |from: f64, to: f64| from + (to - from) * 0.47;
        network.links.push(Link { name, traffic, from, to: (short(from.0, to.0), short(from.1, to.1)) });
    }
    let levels = shape.depth(shape.nodes().saturating_sub(1)) + 1;
    network.size = (
        f64::from(shape.nodes()) * COLUMN + 2.0 * MARGIN,
        f64::from(levels - 1) * LEVEL + 2.0 * RADIUS + GAP,
    );
    network
}

/// Gives each node at or below `rank` a column of its own, from left to right, so that links cross nothing.
fn across(shape: TreeShape, rank: u32, next: &mut u32, columns: &mut [u32]) {
    if let Some(left) = shape.child(rank, 0) {
        across(shape, left, next, columns);
    }
    if let Some(column) = columns.get_mut(rank as usize) {
        *column = *next;
        *next += 1;
    }
    if let Some(right) = shape.child(rank, 1) {
        across(shape, right, next, columns);
    }
}

/// The networks beside each other, or below where that would be too wide.
fn draw(title: &str, networks: &[(&str, Network)]) -> String {
    let mut body = String::new();
    words(&mut body, (MARGIN, MARGIN + 8.0), "font-weight=\"bold\"", title);
    let (mut left, mut top) = (0.0f64, MARGIN + 8.0 + 1.5 * LINE);
    let (mut width, mut height) = (LEAST_WIDTH, top);
    for (name, network) in networks {
        let panel_width = network.size.0.max(LEAST_WIDTH);
        if left > 0.0 && left + panel_width > MOST_WIDTH {
            (left, top) = (0.0, height + LINE);
        }
        let most = network.links.iter().map(|link| link.traffic.bytes).max().unwrap_or(0);
        let _ = writeln!(body, r#"<g transform="translate({left:.0} {top:.0})">"#);
        legend(&mut body, name, most);
        network.render(&mut body, most);
        let mut line = network.size.1 + LINE;
        for text in network.hottest() {
            line += LINE;
            words(&mut body, (MARGIN, line), "", &text);
        }
        body.push_str("</g>\n");
        left += panel_width;
        (width, height) = (width.max(left), height.max(top + line + LINE));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// The name of a network, and what its colours mean.
fn legend(body: &mut String, name: &str, most: u64) {
    words(body, (MARGIN, 0.0), "font-weight=\"bold\"", name);
    let mut left = MARGIN + 100.0;
    let mut sample = |colour: &str, thickness: f64, meaning: &str| {
        let (y, end) = (-4.0, left + 20.0);
        let _ = writeln!(
            body,
            r#"<line x1="{left:.0}" y1="{y:.0}" x2="{end:.0}" y2="{y:.0}" stroke="{colour}" stroke-width="{thickness:.1}"/>"#
        );
        words(body, (end + 5.0, 0.0), "", meaning);
        left += 45.0 + 7.0 * meaning.len() as f64;
    };
    sample(UNUSED, 1.0, "none");
    if most > 0 {
        sample(COLOURS[0], thickness(0.1), "few");
        let meaning = format!("most of a link: {}", DecimalBytes(most));
        sample(COLOURS[COLOURS.len() - 1], thickness(1.0), &meaning);
    }
}

/// That of a link with this part of the busiest one's bytes.
fn thickness(part: f64) -> f64 {
    2.0 + 6.0 * part
}

impl Network {
    fn render(&self, body: &mut String, most: u64) {
        for Link { name, traffic, from, to } in &self.links {
            let (colour, thickness) = match (traffic.bytes, most) {
                (0, _) => (UNUSED, 1.0),
                (bytes, _) => {
                    let part = bytes as f64 / most as f64;
                    let step = (part * COLOURS.len() as f64).ceil() as usize;
                    (COLOURS[step.clamp(1, COLOURS.len()) - 1], thickness(part))
                }
            };
            let _ = writeln!(
                body,
                r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{thickness:.1}"><title>{}</title></line>"#,
                from.0,
                from.1,
                to.0,
                to.1,
                escape(&told(name, traffic))
            );
        }
        for (rank, &(x, y)) in self.nodes.iter().enumerate() {
            let _ = writeln!(
                body,
                r##"<circle cx="{x:.1}" cy="{y:.1}" r="{RADIUS}" fill="#ffffff" stroke="#333333"/>"##
            );
            words(body, (x, y + 4.0), "text-anchor=\"middle\"", &rank.to_string());
        }
        for (at, text) in &self.captions {
            words(body, *at, "fill=\"#555555\"", text);
        }
    }

    /// The links with the most bytes, in words.
    fn hottest(&self) -> Vec<String> {
        let mut used: Vec<_> = self.links.iter().filter(|link| link.traffic.bytes > 0).collect();
        used.sort_by_key(|link| std::cmp::Reverse(link.traffic.bytes));
        let lines = used.iter().take(HOT).map(|link| told(&link.name, &link.traffic));
        match used.len() {
            0 => vec!["no link carried anything".to_owned()],
            _ => std::iter::once("busiest links, from node to node:".to_owned()).chain(lines).collect(),
        }
    }
}

fn told(name: &str, traffic: &Traffic) -> String {
    format!("{name}: {}, {} packets", DecimalBytes(traffic.bytes), traffic.packets)
}

fn words(body: &mut String, at: Point, style: &str, text: &str) {
    let _ = writeln!(body, r#"<text x="{:.1}" y="{:.1}" {style}>{}</text>"#, at.0, at.1, escape(text));
}

/// Text as it stands in SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::TreeNodeStatistics;
    use pami::combine::tree::CHILDREN;

    /// A torus whose links have all carried something, each as much as no other.
    fn busy(shape: &str) -> (TorusShape, Vec<NodeStatistics>) {
        let shape: TorusShape = shape.parse().expect("a shape");
        let mut bytes = 0;
        let mut node = |_| {
            let mut node = NodeStatistics::default();
            for link in &mut node.links {
                bytes += 1000;
                *link = Traffic { packets: 1, bytes };
            }
            node
        };
        (shape, (0..shape.nodes()).map(&mut node).collect())
    }

    fn distance(a: Point, b: Point) -> f64 {
        (a.0 - b.0).hypot(a.1 - b.1)
    }

    /// How near a point comes to a line between two.
    fn beside(point: Point, (from, to): (Point, Point)) -> f64 {
        let along = (to.0 - from.0, to.1 - from.1);
        let part = ((point.0 - from.0) * along.0 + (point.1 - from.1) * along.1)
            / (along.0 * along.0 + along.1 * along.1);
        let part = part.clamp(0.0, 1.0);
        distance(point, (from.0 + part * along.0, from.1 + part * along.1))
    }

    /// Nothing lies upon anything else, and all lies within.
    fn lies_apart(network: &Network) {
        let thick = thickness(1.0);
        let within = |it: Point| {
            assert!(
                (0.0..=network.size.0).contains(&it.0) && (0.0..=network.size.1).contains(&it.1),
                "{it:?}"
            );
        };
        for (rank, &node) in network.nodes.iter().enumerate() {
            within((node.0 - RADIUS, node.1 - RADIUS));
            within((node.0 + RADIUS, node.1 + RADIUS));
            assert!(network.nodes[..rank].iter().all(|&other| distance(node, other) > 2.0 * RADIUS + 4.0));
            for link in network.links.iter().filter(|link| link.from != node) {
                let near = beside(node, (link.from, link.to));
                assert!(near > RADIUS + thick / 2.0, "{} runs over node {rank}", link.name);
            }
            for (at, words) in &network.captions {
                assert!(
                    beside(node, (*at, (at.0 + 7.0 * words.len() as f64, at.1))) > RADIUS + 2.0,
                    "{words}"
                );
            }
        }
        for (index, link) in network.links.iter().enumerate() {
            within(link.to);
            for other in &network.links[..index] {
                assert!(distance(link.to, other.to) > 2.0, "{} ends at {}", link.name, other.name);
                let near = beside(link.to, (other.from, other.to));
                assert!(near > 2.0, "{} runs into {}", link.name, other.name);
            }
        }
    }

    #[test]
    fn x4_a_picture_of_a_torus_has_each_link_once_and_none_over_another() {
        for (shape, links) in [
            ("2x2x2", 48),
            ("5", 10),
            ("4x2m", 16 + 8),
            ("3x3x3", 162),
            ("2x2x2x2x2", 320),
            ("1", 0),
            ("40x2", 320),
        ] {
            let (shape, counted) = busy(shape);
            let network = torus(shape, &counted);
            let mut names: Vec<_> = network.links.iter().map(|link| &link.name).collect();
            names.sort();
            names.dedup();
            assert_eq!((names.len(), network.nodes.len()), (links, shape.nodes() as usize), "{shape}");
            lies_apart(&network);
        }
        let (shape, counted) = busy("3m");
        let network = torus(shape, &counted);
        let told: Vec<_> =
            network.links.iter().map(|link| (link.name.as_str(), link.traffic.bytes)).collect();
        assert_eq!(
            told,
            [("0 to 1 (+x)", 2000), ("1 to 0 (-x)", 11000), ("1 to 2 (+x)", 12000), ("2 to 1 (-x)", 21000)]
        );
    }

    #[test]
    fn x4_a_picture_of_a_tree_has_both_ways_of_each_link_and_none_over_another() {
        for nodes in [1u64, 2, 8, 9, 64] {
            let node = |rank| TreeNodeStatistics {
                up: Traffic { packets: 1, bytes: 100 + rank },
                down: core::array::from_fn::<_, CHILDREN, _>(|side| Traffic {
                    packets: 1,
                    bytes: 1000 + 10 * rank + side as u64,
                }),
                ..TreeNodeStatistics::default()
            };
            let counted =
                TreeStatistics { nodes: (0..nodes).map(node).collect(), ..TreeStatistics::default() };
            let network = tree(&counted);
            assert_eq!(network.links.len() as u64, 2 * (nodes - 1));
            lies_apart(&network);
            let bytes =
                |name: &str| network.links.iter().find(|it| it.name == name).map(|it| it.traffic.bytes);
            if nodes > 6 {
                assert_eq!(bytes("6 up to 2"), Some(106));
                assert_eq!([bytes("2 down to 5"), bytes("2 down to 6")], [Some(1020), Some(1021)]);
            }
        }
    }

    #[test]
    fn x4_a_picture_names_the_busiest_links_and_is_well_formed() {
        let (shape, counted) = busy("2x2");
        let text = draw("a <title> & more", &[("torus", torus(shape, &counted))]);
        // The last of a node's links has the most, and of those of node 3 it is that of the second dimension, upwards.
        assert!(text.contains(">3 to 1 (+y): 34.00 kB, 1 packets<"), "{text}");
        assert!(
            text.contains("a &lt;title&gt; &amp; more")
                && text.contains(COLOURS[0])
                && text.contains(COLOURS[4])
        );
        assert_eq!(text.matches("<circle").count(), 4);
        for name in ["svg", "g", "text", "title"] {
            let count = |tag: String| text.matches(&tag).count();
            assert_eq!(count(format!("<{name}")), count(format!("</{name}>")), "{name}");
        }
        let idle = draw("idle", &[("torus", torus(shape, &[]))]);
        assert!(idle.contains("no link carried anything") && !idle.contains("NaN"), "{idle}");
    }
}
