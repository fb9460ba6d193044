//! Times as people say them: `5m`, `2d3h`.

use jiff::Timestamp;

/// How long before `now` something happened, in at most two units.
#[must_use]
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    match (seconds, minutes, hours) {
        (..120, _, _) => format!("{seconds}s"),
        (_, ..10, _) => two(minutes, 'm', seconds % 60, 's'),
        (_, _, ..3) => format!("{minutes}m"),
        (_, _, ..8) => two(hours, 'h', minutes % 60, 'm'),
        (_, _, ..48) => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, 'y', days % 365, 'd'),
        _ => format!("{years}y"),
    }
}
