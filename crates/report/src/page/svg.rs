//! Converts the plotting library's scenes to SVG inside HTML.

use kuva::backend::svg::SvgBackend;
use kuva::render::render::{Primitive, Scene};
use maud::{Markup, PreEscaped, html};

/// Room to the right of a scene for half of the last tick's label, in pixels.
const RIGHT_OF_TICKS: f64 = 18.0;

/// The scene as an `<svg>` that scales with the page. `number` makes its names unique in the page; `description` is for screen readers.
pub(super) fn inline(mut scene: Scene, number: usize, description: &str) -> Markup {
    scene.background_color = None;
    name_clips(&mut scene, number);
    let (width, height) = (scene.width + RIGHT_OF_TICKS, scene.height);
    let text = SvgBackend::new().render_scene(&scene);
    let inside = text.split_once("-->").map_or("", |(_, rest)| rest).trim_end_matches("</svg>");
    html! {
        svg viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="img" aria-label=(description) {
            (PreEscaped(shorten(inside)))
        }
    }
}

/// Numbers the library's clip paths by figure. The library numbers them over the lifetime of the process, which would make two pages of the
/// same results differ.
fn name_clips(scene: &mut Scene, number: usize) {
    let mut clips = 0;
    for element in &mut scene.elements {
        if let Primitive::ClipStart { id, .. } = element {
            let name = format!("clip-{number}-{clips}");
            clips += 1;
            for definition in &mut scene.defs {
                *definition = definition.replace(&format!("\"{id}\""), &format!("\"{name}\""));
            }
            *id = name;
        }
    }
}

/// Cuts off, after two digits, long fractions that the library's rounding leaves (`262.84000000000003`).
fn shorten(text: &str) -> String {
    const LONG: usize = 8;
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(point) = rest.find('.') {
        let (before, fraction) = rest.split_at(point + 1);
        short.push_str(before);
        let digits = fraction.bytes().take_while(|byte| byte.is_ascii_digit()).count();
        let kept = if digits >= LONG { 2 } else { digits };
        short.push_str(&fraction[..kept]);
        rest = &fraction[digits..];
    }
    short.push_str(rest);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_fractions_are_cut() {
        assert_eq!(shorten("a 262.84000000000003 b 1.25 c. 0.5"), "a 262.84 b 1.25 c. 0.5");
    }

    #[test]
    fn names_depend_on_the_figure_alone() {
        let scene = || {
            let plots = vec![kuva::plot::LinePlot::new().with_data(vec![(0, 0), (1, 1)]).into()];
            let layout = kuva::render::layout::Layout::auto_from_plots(&plots);
            kuva::render::render::render_multiple(plots, layout)
        };
        let first = inline(scene(), 7, "").into_string();
        assert_eq!(first, inline(scene(), 7, "").into_string());
        assert!(first.contains("id=\"clip-7-0\"") && first.contains("url(#clip-7-0)"));
    }
}
