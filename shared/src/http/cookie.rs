//! Cookies of requests and responses.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(sent, _)| *sent == name).map(|(_, value)| value)
}

/// Returns a `Set-Cookie` header. With 0 seconds the browser removes the cookie.
pub fn set_cookie(name: &str, value: &str, seconds: i64) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let headers = |value: &str| HeaderMap::from_iter([(COOKIE, value.parse().unwrap())]);
        let sent = headers("x__Host-mode=1; __Host-mode=live;__Host-session=a=b");
        assert_eq!(cookie(&sent, "__Host-mode"), Some("live"));
        assert_eq!(cookie(&sent, "__Host-session"), Some("a=b"));
        assert_eq!(cookie(&sent, "mode"), None);
    }
}
