use super::*;

fn chart(places: Places, marks: Vec<Mark>) -> String {
    let panel = |heading: &str| Panel { heading: heading.to_owned(), least_top: 0.0, marks: marks.clone() };
    let chart = Chart {
        title: "Speed of <evil> & \"long\" names".to_owned(),
        facts: vec!["a&b<c>".to_owned(), String::new(), "x".repeat(500), "\u{0}\u{1b}[2J".to_owned()],
        x_label: "Batch size".to_owned(),
        places,
        panels: vec![panel("Positions per second"), panel("Milliseconds per batch")],
    };
    chart.to_svg()
}

fn mark(name: &str, shape: Shape) -> Mark {
    Mark { name: name.to_owned(), shape }
}

/// Fails unless `svg` is well-formed XML whose coordinates are inside the picture.
fn check(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("a tag does not end: {part}"));
        assert!(!text.contains('>') && !text.contains('\0'), "{part}");
        for entity in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|name| entity.starts_with(name)), "{part}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{svg}");
        } else {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    for coordinate in svg.split([' ', 'M', 'L', 'H', '"', '=']).filter_map(|word| word.parse::<f64>().ok()) {
        assert!((-0.1..=WIDTH).contains(&coordinate), "{coordinate} in {svg}");
    }
}

#[test]
fn values_and_escaped_texts_are_in_the_picture() {
    let svg = chart(
        Places::Numbers(vec![1.0, 8.0, 16.0]),
        vec![
            mark("deviation", Shape::Band(vec![(900.0, 1100.0), (1900.0, 2100.0), (2900.0, 3100.0)])),
            mark("mean", Shape::Line(vec![1000.0, 2000.0, 2950.0])),
        ],
    );
    check(&svg);
    for shown in [
        "<title>1,000 positions per second, batch size 1</title>",
        "<title>2,950 milliseconds per batch, batch size 16</title>",
        ">4,000</text>",
        ">8</text>",
        ">mean</text>",
        "Speed of &lt;evil&gt; &amp; &quot;long&quot; names",
        "a&amp;b&lt;c&gt;",
        "\u{fffd}[2J",
        "prefers-color-scheme:dark",
    ] {
        assert!(svg.contains(shown), "{shown} is not in {svg}");
    }
    assert!(svg.len() < 10_000, "{} bytes", svg.len());
}

#[test]
fn extreme_values_give_a_sound_picture() {
    let extremes = [0.0, 1.0, 1e9, 1e300, f64::MAX, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, -5.0];
    for value in extremes {
        for count in [0, 1, 2, 34, 60] {
            let values = vec![value; count];
            let marks = vec![
                mark("band", Shape::Band(vec![(value, value); count])),
                mark("line", Shape::Line(values.clone())),
                mark("bars", Shape::Bars(values.clone())),
                mark("dots", Shape::Dots(values, 6.0, None)),
                mark("level", Shape::Level(value)),
            ];
            check(&chart(Places::Numbers((0..count).map(|index| index as f64).collect()), marks.clone()));
            let named = (0..count).map(|index| (index as f64, "<&".to_owned())).collect();
            check(&chart(Places::Named(named), marks.clone()));
            check(&chart(Places::Items(vec!["]]><script>".to_owned(); count]), marks));
        }
    }
}

#[test]
fn bars_are_labelled_where_there_is_room() {
    let bars = |count: usize| {
        let svg = chart(
            Places::Items(vec![String::new(); count]),
            vec![mark("", Shape::Bars(vec![12_345.0; count]))],
        );
        check(&svg);
        svg.matches(">12,345</text>").count()
    };
    assert_eq!((bars(10), bars(34)), (20, 0));
}

/// A picture without its tooltips, whose numbers [`check`] would take for coordinates.
fn without_tooltips(svg: &str) -> String {
    let parts = svg.split("<title>").enumerate();
    parts
        .map(|(index, part)| if index == 0 { part } else { part.split_once("</title>").unwrap().1 })
        .collect()
}

#[test]
fn bars_of_segments_and_rooflines_of_any_values_are_drawn() {
    for value in [0.0, 1.0, 1e-300, 1e300, f64::MAX, f64::NAN, f64::INFINITY, -5.0] {
        let facts = vec!["a <fact>".to_owned()];
        let row = |name: &str| StackedRow {
            name: name.to_owned(),
            segments: vec![("encoder 0".to_owned(), value), ("encoder 1".to_owned(), value)],
            note: "10 %".to_owned(),
        };
        let (title, x_label) = ("title".to_owned(), "us".to_owned());
        let rows = vec![row("a & b"), row("c")];
        check(&Stacked { title: title.clone(), facts: facts.clone(), x_label, rows }.to_svg());
        let point = Point { name: "a & b".to_owned(), intensity: value, bytes_per_second: value };
        let idle = Point { intensity: 0.0, ..point.clone() };
        let copies = vec![("copies".to_owned(), value)];
        let roofline = Roofline {
            title,
            facts,
            operations_per_second: value,
            byte_operations_per_second: value,
            copies,
            points: vec![point, idle],
        };
        check(&without_tooltips(&roofline.to_svg()));
    }
}

/// The picture of a card with one rate of copies.
fn roofline(points: Vec<Point>) -> String {
    Roofline {
        title: String::new(),
        facts: Vec::new(),
        operations_per_second: 1e12,
        byte_operations_per_second: 0.0,
        copies: vec![("copies".to_owned(), 1e11)],
        points,
    }
    .to_svg()
}

/// The number in an attribute.
fn number(text: &str, name: &str) -> f64 {
    let (_, rest) = text.split_once(&format!("{name}=\"")).expect(name);
    rest.split_once('"').and_then(|(number, _)| number.parse().ok()).expect(name)
}

/// An operation without products that copies as fast as a copy stands where the slope of the copy begins.
#[test]
fn an_operation_without_products_has_its_distance_to_the_slope() {
    let point = |name: &str, intensity, bytes_per_second| Point {
        name: name.to_owned(),
        intensity,
        bytes_per_second,
    };
    let svg =
        roofline(vec![point("product", 2.0, 1e10), point("norm", 0.0, 1e11), point("softmax", 0.0, 1e9)]);
    let circles: Vec<&str> = svg.lines().filter(|line| line.contains("<circle")).collect();
    let heights: Vec<f64> = circles.iter().map(|circle| number(circle, "cy")).collect();
    let slope = svg.lines().find(|line| line.contains("line s0")).expect("the slope of the copy");
    let (_, begin) = slope.split_once("d=\"M").expect("a path");
    let begin: Vec<f64> = begin.split(['L', ' ']).take(2).filter_map(|part| part.parse().ok()).collect();
    assert_eq!(heights[1], begin[1], "{svg}");
    assert!(heights[2] > heights[1] && number(circles[1], "cx") < begin[0], "{svg}");
    assert!(number(circles[0], "cx") > begin[0], "{svg}");
    // No number of the axis is in the line of the strip's name.
    let name = svg.lines().find(|line| line.contains("no products")).expect("the strip has a name");
    let below: Vec<&str> =
        svg.lines().filter(|line| line.contains("<text") && number(line, "y") == number(name, "y")).collect();
    assert!(
        below.iter().all(|line| line.contains("no products") || line.contains("Operations per byte")),
        "{below:?}"
    );
}

/// As in a profile in which all GEMMs run at nearly one speed.
#[test]
fn operations_at_one_place_can_be_told_apart() {
    let point = |index: u32, intensity| Point {
        name: format!("gemm {index}"),
        intensity,
        bytes_per_second: 1e10 * (1.0 + 0.01 * f64::from(index)),
    };
    let points = (0..12).map(|index| point(index, 20.0)).chain((0..6).map(|index| point(index, 0.0)));
    let svg = roofline(points.collect());
    let discs: Vec<(f64, f64)> = svg
        .lines()
        .filter(|line| line.contains("<circle") && number(line, " r") == 10.0)
        .map(|line| (number(line, "cx"), number(line, "cy")))
        .collect();
    assert_eq!(discs.len(), 18);
    for (index, a) in discs.iter().enumerate() {
        assert!(discs[..index].iter().all(|b| (a.0 - b.0).hypot(a.1 - b.1) > 20.0), "{a:?}: {discs:?}");
    }
}

#[test]
fn a_bar_is_as_long_as_its_segments() {
    let row = StackedRow {
        name: "QKV".to_owned(),
        segments: vec![("encoder 0".to_owned(), 30.0), ("encoder 1".to_owned(), 20.0)],
        note: String::new(),
    };
    let svg = Stacked {
        title: String::new(),
        facts: Vec::new(),
        x_label: "Microseconds".to_owned(),
        rows: vec![row],
    }
    .to_svg();
    let widths: Vec<f64> = svg
        .lines()
        .filter(|line| line.contains("<rect class=\"f0"))
        .filter_map(|line| line.split_once("width=\"")?.1.split_once('"')?.0.parse().ok())
        .collect();
    assert_eq!(widths.len(), 2, "{svg}");
    assert!((widths[0] / widths[1] - 1.5).abs() < 0.01, "{widths:?}");
}
