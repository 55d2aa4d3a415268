//! What a chart shows.

/// A picture with one or more panels.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Chart {
    /// What the chart shows.
    pub title: String,
    /// What was measured on what. The facts are below the title, and absent ones are empty.
    pub facts: Vec<String>,
    /// The name of the horizontal axis.
    pub x_label: String,
    /// The places on the horizontal axis.
    pub places: Places,
    /// The panels, from the top down.
    pub panels: Vec<Panel>,
}

/// The places on the horizontal axis. Each mark has a value for each place.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Places {
    /// Numbers in ascending order, at distances in proportion.
    Numbers(Vec<f64>),
    /// The same, with texts for tooltips.
    Named(Vec<(f64, String)>),
    /// Places at equal distances, numbered from 1. The texts are for tooltips.
    Items(Vec<String>),
}

/// A pair of axes with its marks.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Panel {
    /// The quantity on the vertical axis, which begins at 0.
    pub heading: String,
    /// The vertical axis reaches this value even if no mark does.
    pub least_top: f64,
    /// What is drawn, from the back to the front.
    pub marks: Vec<Mark>,
}

/// Something that is drawn in a panel.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Mark {
    /// The name in the legend. A mark without a name is not in it.
    pub name: String,
    /// What it looks like, with its values.
    pub shape: Shape,
}

/// The look of a mark. A value that is not finite is left out.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Shape {
    /// A line with a dot at each place.
    Line(Vec<f64>),
    /// A dot of this radius at each place, in the colour of this number, or else in the next one.
    Dots(Vec<f64>, f64, Option<usize>),
    /// The area between lower and upper values.
    Band(Vec<(f64, f64)>),
    /// A bar at each place.
    Bars(Vec<f64>),
    /// A horizontal line across the panel.
    Level(f64),
}

impl Places {
    /// The numbers on the axis; none for items.
    pub(super) fn numbers(&self) -> Vec<f64> {
        match self {
            Places::Numbers(numbers) => numbers.clone(),
            Places::Named(places) => places.iter().map(|(number, _)| *number).collect(),
            Places::Items(_) => Vec::new(),
        }
    }
}

impl Panel {
    /// The largest value of all marks.
    pub(super) fn largest(&self) -> f64 {
        let values = self.marks.iter().flat_map(|mark| match &mark.shape {
            Shape::Line(values) | Shape::Bars(values) | Shape::Dots(values, ..) => values.clone(),
            Shape::Band(pairs) => pairs.iter().map(|&(_, upper)| upper).collect(),
            Shape::Level(value) => vec![*value],
        });
        values.filter(|value| value.is_finite()).fold(self.least_top, f64::max)
    }
}
