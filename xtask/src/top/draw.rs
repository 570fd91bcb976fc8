//! How it looks in a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::{Line, Text};

use super::model::{Model, fit};

/// From this width on the two lists lie beside each other.
const WIDE: u16 = 70;
/// Titles of the lists.
const LINKS: &str = "hot links";
const WAITS: &str = "waits";
const KEYS: &str = "q quit, p pause, arrows PgUp PgDn scroll";

/// Draws it, as far as there is room.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let area = frame.area();
    let wide = area.width >= WIDE;
    let least = if wide { 2 } else { 4 };
    let lists = least.max(area.height.saturating_sub(3) / 3);
    let parts =
        [Constraint::Length(2), Constraint::Fill(1), Constraint::Length(lists), Constraint::Length(1)];
    let [head, table, lists, keys] = Layout::vertical(parts).areas(area);
    let [links, waits] = if wide {
        Layout::horizontal([Constraint::Fill(2), Constraint::Fill(3)]).spacing(2).areas(lists)
    } else {
        Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(lists)
    };

    let [what, how] = model.head();
    put(frame, head, [Line::from(what).bold(), Line::from(how)]);
    let width = usize::from(table.width);
    let titles = Line::styled(model.titles(width), Style::new().reversed());
    let seen = model.fit(usize::from(table.height.saturating_sub(1)));
    let rows = model.rows(width).skip(seen.start).take(seen.len()).map(Line::from);
    put(frame, table, std::iter::once(titles).chain(rows));
    for (area, title, lines) in [
        (links, LINKS, model.hot_links(usize::from(links.width))),
        (waits, WAITS, model.waits(usize::from(waits.width))),
    ] {
        let title = Line::styled(title, Style::new().reversed());
        put(frame, area, std::iter::once(title).chain(lines.into_iter().map(Line::from)));
    }
    let nodes = model.rows(width).count();
    let keys_line = match seen.len() < nodes {
        true => format!("nodes {} to {} of {nodes}; {KEYS}", seen.start, seen.end.saturating_sub(1)),
        false => KEYS.to_owned(),
    };
    put(frame, keys, [Line::from(keys_line).dim()]);
}

/// Lines in an area, each cut where it ends.
fn put<'a>(frame: &mut Frame<'_>, area: Rect, lines: impl IntoIterator<Item = Line<'a>>) {
    let cut = |line: Line<'_>| {
        let style = line.style;
        Line::styled(fit(&line.to_string(), usize::from(area.width)), style)
    };
    let text: Text<'_> = lines.into_iter().take(usize::from(area.height)).map(cut).collect();
    frame.render_widget(text, area);
}
