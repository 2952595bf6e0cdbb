//! Optimizations of a script's text: library functions as locals, rounding inlined.

/// Declares the library functions that a script calls as locals: a table lookup takes longer than the call.
pub(super) fn imports(body: &str) -> String {
    let used = IMPORTS.iter().filter(|(name, _)| calls(body, name).next().is_some());
    let (names, values): (Vec<&str>, Vec<&str>) = used.copied().unzip();
    format!("local {} = {}\n", names.join(", "), values.join(", "))
}

/// Positions at which a function of this name is called.
fn calls<'a>(text: &'a str, name: &str) -> impl Iterator<Item = usize> + use<'a> {
    let call = format!("{name}(");
    let found: Vec<usize> = text.match_indices(&call).map(|(place, _)| place).collect();
    let is_word = |place: &usize| !text[..*place].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    found.into_iter().filter(move |place| is_word(place))
}

/// Inlines `floor` and `ceil`: a call takes ten times as long as the computation.
pub(super) fn rounded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((place, name)) =
        ["floor", "ceil"].iter().filter_map(|name| Some((calls(rest, name).next()?, *name))).min()
    {
        let inside = place + name.len() + 1;
        let length = closing(&rest[inside..]);
        let number = rounded(&rest[inside..inside + length]);
        out.push_str(&rest[..place]);
        let written = if name == "ceil" {
            format!("({number} + -({number}) % 1)")
        } else {
            format!("({number} - ({number}) % 1)")
        };
        out.push_str(&written);
        rest = &rest[inside + length + 1..];
    }
    out.push_str(rest);
    out
}

/// The position of the parenthesis that closes one opened before this text.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (place, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return place,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

const IMPORTS: [(&str, &str); 7] = [
    ("call", "redis.call"),
    ("unpack", "struct.unpack"),
    ("pack", "struct.pack"),
    ("sub", "string.sub"),
    ("format", "string.format"),
    ("concat", "table.concat"),
    ("rep", "string.rep"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_inlined() {
        assert_eq!(rounded("x = ceil(a / b) + y"), "x = (a / b + -(a / b) % 1) + y");
        assert_eq!(rounded("floor(floor(u / d) / 2)"), "((u / d - (u / d) % 1) / 2 - ((u / d - (u / d) % 1) / 2) % 1)");
        assert_eq!(rounded("local ceiling = 1"), "local ceiling = 1");
    }

    #[test]
    fn only_functions_that_are_called_are_declared() {
        assert_eq!(imports("local now = call('TIME')\n"), "local call = redis.call\n");
        assert_eq!(imports("return unpack('>d', x)"), "local unpack = struct.unpack\n", "and `pack` is another word");
    }
}
