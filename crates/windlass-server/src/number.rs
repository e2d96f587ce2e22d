//! Formats numbers, on pages and in the terminal.

/// A number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large number in at most four characters and a unit; None if it is short enough unchanged.
pub fn scaled(number: u64) -> Option<String> {
    let (unit, name) = match number {
        0..10_000 => return None,
        10_000..1_000_000 => (1_000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'G'),
    };
    let tenths = number / (unit / 10);
    Some(if tenths >= 1000 {
        format!("{}{name}", tenths / 10)
    } else {
        format!("{}.{}{name}", tenths / 10, tenths % 10)
    })
}
