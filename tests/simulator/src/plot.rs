//! Plots: runs of scenario files side by side, as one SVG.
//!
//! ```text
//!  files ─► RunSeries (target, pods and latency over time) ─► a Panel for each of the three ─► SVG
//! ```
//!
//! The documents show these pictures, so they follow the reader's colour scheme. Equal files give
//! equal bytes.

mod panel;
mod run_series;
mod scale;

use std::fmt::Write;

use panel::{Line, Panel};
use run_series::RunSeries;

use crate::scenario_file::ScenarioFile;
use crate::scenario_file::outcome::ScenarioRunError;

/// Most runs in a picture: one for each style of line.
pub const MOST_RUNS: usize = 3;
/// Width of the picture.
const WIDTH: f64 = 900.0;
/// Height of the legend, of a panel with its distance to the next one, and of the time axis.
const LEGEND: f64 = 44.0;
const PANEL: f64 = 168.0;
const TIME_AXIS: f64 = 26.0;
const STYLE: &str = "
    .page { fill: #ffffff; } .grid { stroke: #d5dde6; stroke-width: 1; }
    text { fill: #1a2433; } .num { font-size: 13px; fill: #4a5a6d; }
    .end { text-anchor: end; } .middle { text-anchor: middle; }
    .run { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
    .run0 { stroke: #c05621; } .run1 { stroke: #2b6cb0; }
    .run2 { stroke: #8494a7; stroke-dasharray: 6 4; }
    .limit { stroke: #1a2433; stroke-width: 1.5; stroke-dasharray: 2 4; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #10161f; } .grid { stroke: #2a3746; }
      text { fill: #e6edf5; } .num { fill: #a7b6c6; }
      .run0 { stroke: #f0935a; } .run1 { stroke: #63a4ec; } .run2 { stroke: #6c7f94; }
      .limit { stroke: #e6edf5; }
    }
  ";

/// Runs the scenarios and draws them; at most [`MOST_RUNS`] of them get a style of their own.
///
/// # Errors
/// See [`ScenarioRunError`].
pub fn plot(files: &[ScenarioFile]) -> Result<String, ScenarioRunError> {
    let runs = files.iter().map(RunSeries::of).collect::<Result<Vec<_>, _>>()?;
    Ok(svg(&runs))
}

fn svg(runs: &[RunSeries]) -> String {
    let panels = panels(runs);
    let height = LEGEND + PANEL * panels.len() as f64 + TIME_AXIS;
    let names: Vec<_> = runs.iter().map(|run| escaped(&run.name)).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"t d\"\n     font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"14\">\n  \
         <title id=\"t\">Target, pods and latency over time</title>\n  \
         <desc id=\"d\">{}</desc>\n  <style>{STYLE}</style>\n  \
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"10\"/>\n",
        names.join("; "),
    );
    draw_legend(&mut svg, &names);
    for (index, panel) in panels.iter().enumerate() {
        panel.draw(&mut svg, LEGEND + PANEL * index as f64);
    }
    if let Some(panel) = panels.first() {
        panel.draw_time_axis(&mut svg, height - TIME_AXIS);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panels(runs: &[RunSeries]) -> [Panel<'_>; 3] {
    let until = runs.iter().map(|run| run.duration).fold(60.0, f64::max);
    let lines = |points: fn(&RunSeries) -> &[(f64, f64)], is_stepped| {
        runs.iter().map(|run| Line { points: points(run), is_stepped }).collect::<Vec<_>>()
    };
    let objective = runs.iter().find_map(|run| run.objective);
    let (targets, pods) = (lines(|run| &run.targets, true), lines(|run| &run.pods, true));
    let latencies = lines(|run| &run.latencies, false);
    [
        Panel::new("Target: concurrent requests that a pod should carry", "", until, targets, None),
        Panel::new("Ready pods", "", until, pods, None),
        Panel::new(
            "Latency of each minute at the objective's percentile; dotted: the objective",
            " s",
            until,
            latencies,
            objective,
        ),
    ]
}

fn draw_legend(svg: &mut String, names: &[String]) {
    let step = (WIDTH - 48.0) / names.len().max(1) as f64;
    for (index, name) in names.iter().enumerate() {
        let x = 24.0 + step * index as f64;
        let _ = writeln!(
            svg,
            "  <path class=\"run run{index}\" d=\"M{x:.0} 24h28\"/><text x=\"{:.0}\" y=\"29\">{name}</text>",
            x + 36.0
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, duration: &str) -> ScenarioFile {
        ScenarioFile::parse(&format!(
            "{{name: {name}, duration: {duration}, app: {{model: queue, servers: 8, service: {{mean: 100ms}}}}, \
             load: [{{at: 0s, rps: 100}}], target: 4, objective: 400ms@p95}}"
        ))
        .unwrap()
    }

    #[test]
    fn picture_has_a_line_of_each_run_in_each_panel() {
        let files = [file("'a < b'", "3m"), file("b", "5m")];
        let svg = plot(&files).unwrap();
        for (element, count) in [("class=\"run run0\"", 4), ("class=\"run run1\"", 4), ("class=\"limit\"", 1)]
        {
            assert_eq!(svg.matches(element).count(), count, "{element} in {svg}");
        }
        assert!(svg.contains("a &lt; b</text>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(plot(&files).unwrap(), svg, "the same bytes");
    }
}
