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

    proptest! {
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
