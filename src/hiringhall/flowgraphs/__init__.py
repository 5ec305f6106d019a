"""Pictures of flows: layers, folding and layout. Pure: names and edges go in, places and SVG come out."""
