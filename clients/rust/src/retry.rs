// Which answers are worth another attempt, and how long to wait before it. Pure, apart from randomness.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

const LONGEST: Duration = Duration::from_secs(60);

/// Whether the status allows another attempt; the gateway's own header has priority. `generates`: whether it generates.
pub(crate) fn is_worth_retrying(status: StatusCode, headers: &HeaderMap, code: Option<&str>, generates: bool) -> bool {
    match text(headers, "x-should-retry") {
        Some("true") => return true,
        Some("false") => return false,
        _ => {}
    }
    match status.as_u16() {
        // The backend may have generated meanwhile: another attempt would be charged, too.
        504 => !generates,
        408 | 429 | 500..=599 => true,
        409 => code == Some("idempotency_in_progress"),
        _ => false,
    }
}

/// The wait that the gateway asks for. A value that is invalid or in the past counts as absent.
pub(crate) fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let millis = || text(headers, "retry-after-ms").and_then(|text| positive(text, 0.001));
    let seconds = || text(headers, RETRY_AFTER.as_str()).and_then(|text| positive(text, 1.0).or_else(|| until(text)));
    millis().or_else(seconds)
}

/// `n` counts from 0.
pub(crate) fn wait_before(n: u32, asked: Option<Duration>) -> Duration {
    if let Some(asked) = asked {
        return asked.min(LONGEST);
    }
    let highest = 0.5 * f64::from(1_u32 << n.min(4));
    Duration::from_secs_f64(chance() * highest)
}

/// 128 random bits as hex, which no other call has.
pub(crate) fn fresh_key() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// The standard library's maps are seeded from the system's randomness: enough for jitter and for names, so that no
/// other crate is needed.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// 0 ≤ x < 1.
fn chance() -> f64 {
    let bits = u32::try_from(random() >> 32).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn positive(text: &str, unit: f64) -> Option<Duration> {
    // Rust reads "inf" and "NaN" as numbers too.
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    Duration::try_from_secs_f64(text.parse::<f64>().ok()? * unit).ok()
}

/// "Sun, 06 Nov 1994 08:49:37 GMT", the only form of an HTTP date that is still written.
fn until(text: &str) -> Option<Duration> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|&name| name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.split(':').map(str::parse::<u64>);
    let mut part = |limit| clock.next()?.ok().filter(|&part| part < limit);
    let seconds = part(24)? * 3600 + part(60)? * 60 + part(61)?;
    if words.next() != Some("GMT") || !(1..=31).contains(&day) {
        return None;
    }
    let then = UNIX_EPOCH + Duration::from_secs(days(year, month, day) * 86_400 + seconds);
    then.duration_since(SystemTime::now()).ok()
}

/// Since 1970, by counting years from March, so that the leap day is the last one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_dates() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 2, 29), 11_016);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(days(2026, 11, 21), 20_778);
    }

    #[test]
    fn what_is_no_time_is_absent() {
        for text in ["", "-1", "inf", "NaN", "1e400", "soon", "1.2.3", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(positive(text, 1.0).or_else(|| until(text)), None, "{text}");
        }
        assert_eq!(positive("1.5", 1.0), Some(Duration::from_millis(1500)));
        assert!(until("Fri, 31 Dec 9999 23:59:59 GMT").is_some());
    }

    #[test]
    fn waits_grow_to_eight_seconds() {
        for n in 0..40 {
            assert!(wait_before(n, None) < Duration::from_millis(500 << n.min(4)));
        }
        assert_eq!(wait_before(0, Some(Duration::from_secs(3600))), LONGEST);
    }
}
