//! Crypto addresses: derives addresses for tests, and validates the form and checksum of any address.
//!
//! Sources: TRON, *Account address format* (0x41 and 20 bytes in base58check); Bitcoin, base58check of a version and 20
//! bytes; BIP-173 and BIP-350 (bech32).

use bech32::{hrp, segwit};
use sha2::{Digest, Sha256};

/// The text that is hashed together with the network and the id into the 20 bytes of an address.
const SANDBOX_LABEL: &[u8] = b"sandbox address, nobody has its key\0";

const HASH_LEN: usize = 20;
const CHECKSUM_LEN: usize = 4;

const TRON_PREFIX: u8 = 0x41;
const TRON_LEN: usize = 1 + HASH_LEN + CHECKSUM_LEN;

const BITCOIN_LEN: usize = 1 + HASH_LEN + CHECKSUM_LEN;

/// The versions of Bitcoin's addresses in base58check: of a public key's hash (P2PKH) and of a script's (P2SH).
const MAIN_VERSIONS: [u8; 2] = [0x00, 0x05];
const TEST_VERSIONS: [u8; 2] = [0x6f, 0xc4];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Tron,
    BitcoinTestnet,
}

/// The network of a Bitcoin address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitcoinNetwork {
    Main,
    /// Testnet, signet or regtest, whose coins have no value.
    Test,
}

/// Returns the network of a Bitcoin address. `None`: its form or checksum is wrong.
pub fn bitcoin_network(address: &str) -> Option<BitcoinNetwork> {
    segwit_network(address).or_else(|| base58_network(address))
}

/// Bech32 for version 0, bech32m for later ones.
fn segwit_network(address: &str) -> Option<BitcoinNetwork> {
    let (prefix, ..) = segwit::decode(address).ok()?;
    if prefix == hrp::BC {
        Some(BitcoinNetwork::Main)
    } else {
        [hrp::TB, hrp::BCRT].contains(&prefix).then_some(BitcoinNetwork::Test)
    }
}

fn base58_network(address: &str) -> Option<BitcoinNetwork> {
    // The decoder takes quadratic time.
    let text = Some(address).filter(|address| address.len() <= 2 * BITCOIN_LEN)?;
    let bytes = bs58::decode(text).into_vec().ok().filter(|bytes| bytes.len() == BITCOIN_LEN)?;
    let (covered, given) = bytes.split_last_chunk::<CHECKSUM_LEN>()?;
    let version = covered.first().filter(|_| *given == checksum(covered))?;
    if MAIN_VERSIONS.contains(version) {
        Some(BitcoinNetwork::Main)
    } else {
        TEST_VERSIONS.contains(version).then_some(BitcoinNetwork::Test)
    }
}

/// Tokens sent to it on the main network are lost, so callers must label it as a test address.
pub fn sandbox_address(id: [u8; 16], network: Network) -> String {
    let hash = sandbox_hash(id, network);
    match network {
        Network::Tron => {
            let mut address = Vec::with_capacity(TRON_LEN);
            address.push(TRON_PREFIX);
            address.extend(hash);
            let checksum = checksum(&address);
            address.extend(checksum);
            bs58::encode(address).into_string()
        }
        // Encoding fails only for a hash that does not have 20 bytes.
        Network::BitcoinTestnet => segwit::encode_v0(hrp::TB, &hash).unwrap_or_default(),
    }
}

fn sandbox_hash(id: [u8; 16], network: Network) -> [u8; HASH_LEN] {
    let network: &[u8] = match network {
        Network::Tron => b"tron\0",
        Network::BitcoinTestnet => b"bitcoin-testnet\0",
    };
    let hash = Sha256::new().chain_update(SANDBOX_LABEL).chain_update(network).chain_update(id).finalize();
    hash.first_chunk().copied().unwrap_or_default()
}

/// Returns the first four bytes of SHA-256 of SHA-256.
fn checksum(covered: &[u8]) -> [u8; CHECKSUM_LEN] {
    Sha256::digest(Sha256::digest(covered)).first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the bytes of an address of TRON, after a check of its checksum.
    fn decode_tron(address: &str) -> Vec<u8> {
        let bytes = bs58::decode(address).into_vec().unwrap();
        let (covered, given) = bytes.split_last_chunk::<CHECKSUM_LEN>().unwrap();
        assert_eq!(*given, checksum(covered), "{address}");
        bytes
    }

    #[test]
    fn the_checksum_is_that_of_a_published_address() {
        // The address of the USDT contract on TRON.
        assert_eq!(decode_tron("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").len(), TRON_LEN);
    }

    #[test]
    fn a_sandbox_address_is_derived_from_its_id() {
        insta::assert_snapshot!(sandbox_address([7; 16], Network::Tron), @"TTXYTKSWiYeqRSpzN7U3G9QYpo1UtyzWS1");
        insta::assert_snapshot!(sandbox_address([7; 16], Network::BitcoinTestnet), @"tb1q3jhw5kqe5jzt7xaz6j0snmc00adw56nenza4gr");
    }

    #[test]
    fn the_network_of_a_bitcoin_address_is_known() {
        for address in [
            // The address of the first block.
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
            // From BIP-13, BIP-173 and BIP-350.
            "3P14159f73E4gFr7JterCCQh9QjiTjiZrG",
            "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
            "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3",
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        ] {
            assert_eq!(bitcoin_network(address), Some(BitcoinNetwork::Main), "{address}");
        }
        for address in [
            "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn",
            "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc",
            "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx",
            "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
            "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
        ] {
            assert_eq!(bitcoin_network(address), Some(BitcoinNetwork::Test), "{address}");
        }
    }

    #[test]
    fn a_wrong_bitcoin_address_has_no_network() {
        for address in [
            "",
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfN",
            // Version 0 in bech32m, version 1 in bech32, another prefix, both cases.
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh",
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd",
            "tc1qw508d6qejxtdg4y5r3zarvary0c5xw7kg3g4ty",
            "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sL5k7",
            // An address of TRON, one of Litecoin, an invoice of Lightning.
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
            "LaMT348PWRnrqeeWArpwQPbuanpXDZGEUz",
            "lnbc1pvjluezpp5qqqsyq",
            &"1".repeat(1_000),
        ] {
            assert_eq!(bitcoin_network(address), None, "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_address_with_another_character_is_refused(at in 0_usize..34, other in "[1-9A-HJ-NP-Za-km-z]") {
            let mut address = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".to_owned();
            let is_same = address.get(at..=at) == Some(&*other);
            address.replace_range(at..=at, &other);
            prop_assert_eq!(bitcoin_network(&address).is_some(), is_same);
        }

        #[test]
        fn a_sandbox_address_is_well_formed(id: [u8; 16], other: [u8; 16]) {
            let tron = sandbox_address(id, Network::Tron);
            let bytes = decode_tron(&tron);
            prop_assert!(tron.starts_with('T') && bytes.len() == TRON_LEN && bytes[0] == TRON_PREFIX, "{tron}");
            let bitcoin = sandbox_address(id, Network::BitcoinTestnet);
            let decoded = segwit::decode(&bitcoin);
            prop_assert!(decoded.is_ok_and(|(network, ..)| network == hrp::TB), "{bitcoin}");
            prop_assert_eq!(tron == sandbox_address(other, Network::Tron), id == other);
        }
    }
}
