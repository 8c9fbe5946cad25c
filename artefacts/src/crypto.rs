//! Crypto addresses: derives addresses for tests, and validates the form and checksum of any address.
//!
//! Sources: TRON, *Account address format* (0x41 and 20 bytes in base58check); BIP-173 and BIP-350 (bech32).

use bech32::{hrp, segwit};
use sha2::{Digest, Sha256};

/// The text that is hashed together with the network and the id into the 20 bytes of an address.
const SANDBOX_LABEL: &[u8] = b"sandbox address, nobody has its key\0";

const HASH_LEN: usize = 20;
const CHECKSUM_LEN: usize = 4;

const TRON_PREFIX: u8 = 0x41;
const TRON_LEN: usize = 1 + HASH_LEN + CHECKSUM_LEN;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Tron,
    BitcoinTestnet,
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

/// The address may still belong to no wallet.
pub fn is_well_formed(address: &str, network: Network) -> bool {
    match network {
        Network::Tron => {
            let mut bytes = [0; TRON_LEN];
            let length = bs58::decode(address).onto(&mut bytes);
            let Some((covered, given)) = bytes.split_last_chunk::<CHECKSUM_LEN>() else { return false };
            length == Ok(TRON_LEN) && covered.first() == Some(&TRON_PREFIX) && *given == checksum(covered)
        }
        Network::BitcoinTestnet => segwit::decode(address).is_ok_and(|(network, ..)| network == hrp::TB),
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

    /// The address of the USDT contract on TRON.
    const TRON: &str = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
    /// An example of BIP-173.
    const TESTNET: &str = "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx";

    #[test]
    fn published_addresses_are_well_formed_on_their_network_only() {
        for (address, network, other) in [
            (TRON, Network::Tron, Network::BitcoinTestnet),
            (TESTNET, Network::BitcoinTestnet, Network::Tron),
        ] {
            assert!(is_well_formed(address, network), "{address}");
            assert!(!is_well_formed(address, other), "{address}");
        }
    }

    #[test]
    fn a_text_with_another_form_prefix_or_checksum_is_not_well_formed() {
        for address in [
            "",
            "T",
            // One character differs.
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6s",
            // A leading zero byte.
            "1TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
            " TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
            // Bitcoin's first address, which has another prefix.
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
            "0x0000000000000000000000000000000000000000",
            "Té",
        ] {
            assert!(!is_well_formed(address, Network::Tron), "{address}");
        }
        for address in [
            "",
            "tb1",
            // From BIP-173: the main network; a wrong checksum; mixed case; excess padding bits.
            "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
            "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsq",
            "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sL5k7",
            "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3pjxtptv",
        ] {
            assert!(!is_well_formed(address, Network::BitcoinTestnet), "{address}");
        }
    }

    #[test]
    fn a_sandbox_address_is_derived_from_its_id() {
        insta::assert_snapshot!(sandbox_address([7; 16], Network::Tron), @"TTXYTKSWiYeqRSpzN7U3G9QYpo1UtyzWS1");
        insta::assert_snapshot!(sandbox_address([7; 16], Network::BitcoinTestnet), @"tb1q3jhw5kqe5jzt7xaz6j0snmc00adw56nenza4gr");
    }

    proptest! {
        #[test]
        fn a_sandbox_address_is_well_formed(id: [u8; 16], other: [u8; 16]) {
            let tron = sandbox_address(id, Network::Tron);
            prop_assert!(tron.starts_with('T') && tron.len() == 34 && is_well_formed(&tron, Network::Tron), "{tron}");
            let bitcoin = sandbox_address(id, Network::BitcoinTestnet);
            prop_assert!(bitcoin.starts_with("tb1q") && is_well_formed(&bitcoin, Network::BitcoinTestnet), "{bitcoin}");
            prop_assert_eq!(tron == sandbox_address(other, Network::Tron), id == other);
        }

        #[test]
        fn validation_never_panics(address in ".*|[1-9A-Za-z]{0,200}|tb1[0-9a-z]{0,100}") {
            is_well_formed(&address, Network::Tron);
            is_well_formed(&address, Network::BitcoinTestnet);
        }
    }
}
