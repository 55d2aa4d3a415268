//! The two files of a report: JSON with all rows as far as the limit allows, and text for people.

use super::advice::advice;
use super::report::{Death, Report, StageReport, State, Table};
use serde_json::{Value, json};
use std::fmt::Write;

/// The most bytes of each file.
const MOST_BYTES: usize = 200_000;

/// The text shows tables with at most so many rows as a whole, and of others so many rows.
const WHOLE_TABLE: usize = 24;
const TELLING_ROWS: usize = 10;

/// The widest cell in the text.
const MOST_WIDTH: usize = 70;

/// The number of the JSON's layout.
const LAYOUT: u32 = 1;

/// The report as JSON. If it would be too long, the tables keep the rows that tell most and say how many are left out.
pub(super) fn json(report: &Report) -> String {
    let mut most = usize::MAX;
    loop {
        let text = json_with(report, most).to_string();
        if text.len() < MOST_BYTES || most == 0 {
            return text + "\n";
        }
        let longest =
            report.stages.iter().flat_map(|stage| &stage.tables).map(|table| table.rows.len()).max();
        most = most.min(longest.unwrap_or(0)) * 3 / 4;
    }
}

fn json_with(report: &Report, most: usize) -> Value {
    let pairs = |pairs: &[(String, String)]| -> Value {
        pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
    };
    let table = |table: &Table| {
        let kept = table.telling(most);
        let rows: Vec<Value> =
            kept.iter().map(|&index| table.rows[index].iter().map(rounded).collect()).collect();
        json!({
            "name": table.name,
            "columns": table.columns,
            "rows": rows,
            "left out": table.rows.len() - kept.len(),
        })
    };
    let stage = |stage: &StageReport| {
        let deaths = stage
            .deaths
            .iter()
            .map(|Death { item, how, said }| json!({ "item": item, "how": how, "said": said }));
        json!({
            "name": stage.stage.name(),
            "state": state(&stage.state),
            "seconds": rounded(&stage.seconds.into()),
            "notes": stage.notes,
            "tables": stage.tables.iter().map(table).collect::<Vec<_>>(),
            "ended the process": deaths.collect::<Vec<_>>(),
        })
    };
    json!({
        "rukh doctor": LAYOUT,
        "about": pairs(&report.about),
        "system": pairs(&report.system),
        "advice": advice(report),
        "stages": report.stages.iter().map(stage).collect::<Vec<_>>(),
    })
}

/// The report as text.
pub(super) fn text(report: &Report) -> String {
    let mut text = String::from(
        "Report of `rukh doctor`. It has no name of a user or of a machine in it. Please attach this file and the JSON \
         file beside it to an issue.\n",
    );
    // Writing to a `String` cannot fail.
    let _ = write_sections(report, &mut text);
    if text.len() >= MOST_BYTES {
        let end = text[..MOST_BYTES - 200].rfind('\n').unwrap_or(0);
        text.truncate(end);
        text.push_str("\n… the rest is left out, because this file has a limit of 200 KB\n");
    }
    text
}

fn write_sections(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(text, "\nFindings")?;
    for stage in &report.stages {
        let number = stage.verdicts();
        let outcome = match (&stage.state, stage.complaint()) {
            (State::Done, None) if number > 0 => format!("all {number} right"),
            (State::Done, None) => "done".to_owned(),
            (State::Done, Some(complaint)) if number > 0 => format!("{complaint}, of {number}"),
            (State::Done, Some(complaint)) => complaint,
            (other, Some(complaint)) => format!("{}; {complaint}", state(other)),
            (other, None) => state(other),
        };
        writeln!(text, "  {:<9} {outcome}", stage.stage.name())?;
    }
    let advice = advice(report);
    if !advice.is_empty() {
        writeln!(text, "\nAdvice")?;
        for line in advice {
            writeln!(text, "- {}", line.replace('\n', "\n  "))?;
        }
    }
    for (title, pairs) in [("Program", &report.about), ("System", &report.system)] {
        writeln!(text, "\n{title}")?;
        let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in pairs {
            writeln!(text, "  {name:<width$}  {}", value.replace('\n', "\n    "))?;
        }
    }
    report.stages.iter().try_for_each(|stage| write_stage(stage, text))
}

fn write_stage(stage: &StageReport, text: &mut String) -> std::fmt::Result {
    let number = stage.stage as usize + 1;
    if matches!(stage.state, State::PassedOver(_)) {
        return Ok(());
    }
    let state = state(&stage.state);
    writeln!(
        text,
        "\nStage {number}, {}: {} ({state}, {:.1} s)",
        stage.stage.name(),
        stage.stage.title(),
        stage.seconds
    )?;
    for note in &stage.notes {
        writeln!(text, "  {}", note.replace('\n', "\n    "))?;
    }
    for Death { item, how, said } in &stage.deaths {
        writeln!(text, "  {item} ended its process: {how}")?;
        said.lines().try_for_each(|line| writeln!(text, "    | {line}"))?;
    }
    stage.tables.iter().try_for_each(|table| write_table(table, text))
}

fn write_table(table: &Table, text: &mut String) -> std::fmt::Result {
    writeln!(text, "\n  {}", table.name)?;
    let rows = if table.rows.len() <= WHOLE_TABLE {
        (0..table.rows.len()).collect()
    } else {
        let mut counts: Vec<String> =
            table.counts().iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        if counts.is_empty() {
            counts.push(format!("{} rows", table.rows.len()));
        }
        writeln!(text, "  {}; the {TELLING_ROWS} rows that tell most:", counts.join(", "))?;
        table.telling(TELLING_ROWS)
    };
    let is_filled =
        |&column: &usize| rows.iter().any(|&row| table.rows[row].get(column).is_some_and(|v| !v.is_null()));
    let columns: Vec<usize> = (0..table.columns.len()).filter(is_filled).collect();
    let titles: Vec<String> = columns.iter().map(|&column| table.columns[column].clone()).collect();
    let shown: Vec<Vec<String>> = rows
        .iter()
        .map(|&index| {
            let row = &table.rows[index];
            columns.iter().map(|&column| cell(row.get(column).unwrap_or(&Value::Null))).collect()
        })
        .collect();
    let widths: Vec<(usize, bool)> = columns
        .iter()
        .zip(&titles)
        .enumerate()
        .map(|(place, (&column, title))| {
            let cells = shown.iter().map(|row| &row[place]).chain([title]);
            let is_number =
                rows.iter().all(|&row| table.rows[row].get(column).is_none_or(|v| !v.is_string()));
            (cells.map(|cell| cell.chars().count()).max().unwrap_or(0), is_number)
        })
        .collect();
    for row in std::iter::once(&titles).chain(&shown) {
        let cells = row.iter().zip(&widths).map(|(cell, &(width, is_number))| match is_number {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        writeln!(text, "    {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn state(state: &State) -> String {
    match state {
        State::Unfinished => "not finished".to_owned(),
        State::Done => "done".to_owned(),
        State::Failed(reason) => format!("failed: {reason}"),
        State::OutOfTime(what) => format!("ended at its time limit{what}"),
        State::PassedOver(reason) => format!("passed over: {reason}"),
    }
}

/// A number with four digits, and any other value as it is.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let four = number.as_f64().and_then(|number| format!("{number:.3e}").parse::<f64>().ok());
            four.map_or(Value::Null, Value::from)
        }
        other => other.clone(),
    }
}

fn cell(value: &Value) -> String {
    let text = match rounded(value) {
        Value::Null => return "-".to_owned(),
        Value::String(text) => text.replace('\n', " "),
        Value::Bool(yes) => if yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => match number.as_f64() {
            Some(small) if small != 0.0 && small.abs() < 1e-3 => format!("{small:.1e}"),
            _ => number.to_string().trim_end_matches(".0").to_owned(),
        },
        other => other.to_string(),
    };
    let mut short: String = text.chars().take(MOST_WIDTH).collect();
    if text.chars().nth(MOST_WIDTH).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::stage;
    use super::*;

    fn report(rows: usize) -> Report {
        let long = "a shape with a long name, as the widest network has it ".repeat(2);
        let rows: Vec<(&str, f64, &str)> = (0..rows)
            .map(|index| (long.as_str(), index as f64 / 1e6, if index == 7 { "wrong" } else { "right" }))
            .collect();
        Report { about: Vec::new(), system: Vec::new(), stages: vec![stage(&rows)] }
    }

    #[test]
    fn a_large_report_keeps_its_limit_and_the_rows_that_tell_most() {
        let report = report(20_000);
        let (text, json) = (text(&report), json(&report));
        assert!(json.len() <= MOST_BYTES && json.len() > MOST_BYTES / 2, "{}", json.len());
        let value: Value = serde_json::from_str(&json).expect("it is JSON");
        let table = &value["stages"][0]["tables"][0];
        let rows = table["rows"].as_array().expect("rows");
        assert_eq!(rows.len() as u64 + table["left out"].as_u64().expect("a number"), 20_000);
        assert!(rows.iter().any(|row| row[3] == "wrong"), "what is wrong is kept");
        assert!(text.len() <= MOST_BYTES);
        assert!(text.contains("19999 right, 1 wrong; the 10 rows that tell most:"), "{text}");
        assert!(text.lines().any(|line| line.ends_with("wrong")), "{text}");
    }

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(rounded(&json!(0.123456)), json!(0.1235));
        assert_eq!(rounded(&json!(123456)), json!(123456));
        assert_eq!(cell(&json!(0.000123456)), "1.2e-4");
        assert_eq!(cell(&json!(1234567.0)), "1235000");
        assert_eq!(cell(&json!(2.0)), "2");
        assert_eq!(cell(&Value::Null), "-");
    }
}
